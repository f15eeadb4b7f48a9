//! Certificates, good and bad, and the servers that show them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::unique;

/// A certificate authority of the test's own, and the file that an operator would name.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, unique("authority"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(issuer.pem().as_bytes()).unwrap();
        Self { issuer, file }
    }

    /// Where its certificate is, PEM.
    pub fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// A server's TLS with a certificate for `name`, ended long ago if `expired`.
    pub fn serve(&self, name: &str, expired: bool) -> Arc<rustls::ServerConfig> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        server_config(certificate.der().clone(), &key)
    }
}

/// A certificate for some names and its key, as the files that another program reads.
pub struct Files {
    dir: tempfile::TempDir,
}

impl Authority {
    /// A certificate for these names and addresses, and its key.
    pub fn files(&self, names: &[&str]) -> Files {
        let dir = tempfile::Builder::new().prefix("duewheel-tls-").tempdir().unwrap();
        let params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let key = KeyPair::generate().unwrap();
        let certificate = params.unwrap().signed_by(&key, &self.issuer).unwrap();
        for (name, text) in
            [("cert", certificate.pem()), ("key", key.serialize_pem()), ("ca", self.issuer.pem())]
        {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Files { dir }
    }
}

impl Files {
    /// What makes redis-server show the certificate, and speak TLS with its like; sentinels and nodes of a Cluster, too.
    pub fn redis_arguments(&self) -> Vec<String> {
        let file = |name: &str| self.dir.path().join(name).to_str().unwrap().to_owned();
        let own = [("cert", file("cert")), ("key", file("key")), ("ca-cert", file("ca"))];
        let own = own.map(|(kind, file)| [format!("--tls-{kind}-file"), file]);
        let peers = ["--tls-auth-clients", "no", "--tls-replication", "yes", "--tls-cluster", "yes"];
        own.into_iter().flatten().chain(peers.map(str::to_owned)).collect()
    }
}

/// A server's TLS with a certificate that nobody but itself vouches for.
pub fn self_signed(name: &str) -> Arc<rustls::ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    server_config(certificate.der().clone(), &key)
}

fn server_config(certificate: CertificateDer<'static>, key: &KeyPair) -> Arc<rustls::ServerConfig> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Arc::new(config)
}

/// Speaks this TLS on a port of its own, and hands on what it hears to `to`; for as long as the test's runtime lives.
pub async fn front(tls: Arc<rustls::ServerConfig>, to: SocketAddr) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(tls);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // Whoever refuses the certificate goes away in the middle of it.
                let Ok(mut outside) = acceptor.accept(stream).await else { return };
                let mut inside = tokio::net::TcpStream::connect(to).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut outside, &mut inside).await);
            });
        }
    });
    address
}

/// A server that knows no TLS beyond its own.
#[derive(Debug, Clone, Copy)]
pub enum Relic {
    Tls10,
    Tls11,
}

/// What a client said to the hello of a [`Relic`].
#[derive(Debug)]
pub struct Said(Vec<u8>);

impl Said {
    /// An alert, or that it went away: nothing that goes on with the handshake, nothing that is for the server to read.
    pub fn refuses(&self) -> bool {
        const ALERT: u8 = 21;
        self.0.first().is_none_or(|first| *first == ALERT)
    }
}

impl Relic {
    /// Takes one connection, and answers its hello with one of the old version. Tells what the client says to that.
    pub fn start(self) -> (SocketAddr, mpsc::Receiver<Said>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
            let mut hello = [0; 4096];
            let heard = stream.read(&mut hello).unwrap();
            assert_eq!(hello[0], 22, "no handshake: {:?}", &hello[..heard]);
            stream.write_all(&self.hello()).unwrap();
            let mut answer = Vec::new();
            // A reset is an answer, too.
            stream.read_to_end(&mut answer).ok();
            tell.send(Said(answer)).ok();
        });
        (address, said)
    }

    /// A server's hello: this version, a random, no session, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, no compression, no extensions.
    fn hello(self) -> Vec<u8> {
        let version = match self {
            Self::Tls10 => [3, 1],
            Self::Tls11 => [3, 2],
        };
        let body = [&version[..], &[7; 32], &[0], &[0xc0, 0x13], &[0]].concat();
        let message = [&[2, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat();
        [&[22][..], &version, &[0, u8::try_from(message.len()).unwrap()], &message].concat()
    }
}
