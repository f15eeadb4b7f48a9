//! TLS of the API: a certificate that can be exchanged while the server works.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::settings::TlsFiles;
use crate::error::{Invalid, Result};

/// The certificate and key that new connections are greeted with.
pub struct Tls {
    now: RwLock<TlsAcceptor>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads both files. Refuses what is no PEM, a key that is not the certificate's, and files that cannot be read.
    pub fn load(files: &TlsFiles) -> Result<Self> {
        Ok(Self { now: RwLock::new(acceptor(files)?) })
    }

    /// Reads the files again, for connections from now on. On an error the old ones stay in use.
    pub fn reload(&self, files: &TlsFiles) -> Result<()> {
        let fresh = acceptor(files)?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// TLS 1.2 or 1.3, HTTP/1.1.
fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let refuse =
        |key: &'static str, path: &Path, reason: String| Invalid::new(key, &path.to_string_lossy(), reason);
    let bad_cert = |reason: String| refuse("http.tls_cert_file", &files.cert, reason);
    let bad_key = |reason: String| refuse("http.tls_key_file", &files.key, reason);
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| bad_cert(e.to_string()))?;
    if chain.is_empty() {
        return Err(bad_cert("holds no certificate, expected PEM".to_owned()).into());
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| bad_key(e.to_string()))?;
    // Handed over, not installed for the whole process: an embedder may have chosen another one.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad_cert(format!("TLS cannot be set up: {e}")))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| bad_key(e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
