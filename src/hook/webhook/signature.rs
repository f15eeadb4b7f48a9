//! Signing, after Standard Webhooks 1.0: HMAC-SHA256, one signature for each secret that is valid at the moment.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use secrecy::ExposeSecret;

use super::settings::WebhookSecret;
use crate::clock::Moment;

const PREFIX: &str = "whsec_";

/// The secrets of one endpoint, ready to sign. The key schedule is computed once: a call costs two compressions less.
pub(super) struct Signer {
    keys: Vec<(hmac::Key, Option<Moment>)>,
}

impl Signer {
    /// Reads the secrets; all problems are reported together, and none of them shows a secret.
    pub fn new(secrets: &[WebhookSecret]) -> Result<Self, Vec<String>> {
        let mut keys = Vec::with_capacity(secrets.len());
        let mut problems = Vec::new();
        for (n, secret) in secrets.iter().enumerate() {
            match key(secret.secret.expose_secret()) {
                Ok(key) => keys.push((key, secret.not_after)),
                Err(reason) => problems.push(format!("secrets, number {}: {reason}", n + 1)),
            }
        }
        if secrets.is_empty() {
            problems.push("secrets: none given, expected at least one whsec_… secret".to_owned());
        }
        if problems.is_empty() { Ok(Self { keys }) } else { Err(problems) }
    }

    /// The value of a signature header over the joined parts: `v1,<base64>` for each valid secret, separated by spaces; empty when
    /// no secret is valid at `now`.
    pub fn sign(&self, now: Moment, parts: &[&[u8]]) -> String {
        let mut header = String::with_capacity(48 * self.keys.len());
        for (key, not_after) in &self.keys {
            if not_after.is_some_and(|end| now > end) {
                continue;
            }
            let mut context = hmac::Context::with_key(key);
            parts.iter().for_each(|part| context.update(part));
            header.push_str(if header.is_empty() { "v1," } else { " v1," });
            STANDARD.encode_string(context.sign(), &mut header);
        }
        header
    }

    /// The last moment at which anything can be signed; `None` where one secret has no end.
    pub fn ends(&self) -> Option<Moment> {
        self.keys
            .iter()
            .map(|(_, end)| *end)
            .collect::<Option<Vec<_>>>()
            .and_then(|ends| ends.into_iter().max())
    }
}

fn key(secret: &str) -> Result<hmac::Key, String> {
    let encoded =
        secret.strip_prefix(PREFIX).ok_or("expected whsec_ and base64; it does not start with whsec_")?;
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| "expected whsec_ and base64; what follows whsec_ is not base64 with padding")?;
    if !(24..=64).contains(&bytes.len()) {
        return Err(format!("{} bytes, expected 24 to 64 random bytes behind whsec_", bytes.len()));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str, not_after: Option<Moment>) -> WebhookSecret {
        WebhookSecret { secret: text.to_owned().into(), not_after }
    }

    #[test]
    fn the_vector_of_the_specification_is_met() {
        let signer = Signer::new(&[secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None)]).unwrap();
        let parts: [&[u8]; 5] =
            [b"msg_p5jXN8AQM9LWM0D4loKWxJek", b".", b"1614265330", b".", br#"{"test": 2432232314}"#];
        assert_eq!(
            signer.sign(Moment::host_now(), &parts),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn a_secret_signs_up_to_its_last_moment() {
        let end = Moment::from_millis(1_000).unwrap();
        let old = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let new = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=";
        let signer = Signer::new(&[secret(new, None), secret(old, Some(end))]).unwrap();
        let signatures = |at| signer.sign(Moment::from_millis(at).unwrap(), &[b"x"]).split(' ').count();
        assert_eq!((signatures(999), signatures(1_000), signatures(1_001)), (2, 2, 1));
        assert_eq!(signer.ends(), None);
        let ending = Signer::new(&[secret(old, Some(end))]).unwrap();
        assert_eq!(ending.ends(), Some(end));
        assert_eq!(ending.sign(Moment::from_millis(1_001).unwrap(), &[b"x"]), "");
    }
}
