//! Tokens: who may call, and what. Only their hashes are kept.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use subtle::ConstantTimeEq as _;

use crate::clock::Moment;
use crate::error::Invalid;

/// What a token may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Look.
    Read,
    /// Place, move, hold and cancel single deadlines: what an order service does.
    Enqueue,
    /// What a person does: close by hand, pause, resume, revive and drop the dead.
    Operate,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Enqueue, Self::Operate];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Enqueue => "enqueue",
            Self::Operate => "operate",
        }
    }

    /// The scope of that name.
    pub fn parse(word: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == word)
            .ok_or_else(|| Invalid::new("scope", word, "expected read, enqueue or operate"))
    }
}

/// A token as it is kept: its hash, whose it is, what it may do and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    name: String,
    scopes: BTreeSet<Scope>,
    until: Option<Moment>,
    hash: [u8; 32],
}

impl Token {
    /// The prefix of every token, so that one that leaked is recognised by whoever scans for it.
    pub const PREFIX: &str = "dwt_";

    /// A new token: the secret for its user, and what is kept of it. 256 bits from the system's source of randomness.
    pub fn generate(name: &str, scopes: &[Scope], until: Option<Moment>) -> Result<(String, Self), Invalid> {
        let mut random = [0; 32];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| Invalid::new("token", "", "the system gives no random bytes"))?;
        let secret = format!("{}{}", Self::PREFIX, URL_SAFE_NO_PAD.encode(random));
        let token = Self {
            name: checked_name(name)?,
            scopes: scopes.iter().copied().collect(),
            until,
            hash: hash(secret.as_bytes()),
        };
        Ok((secret, token))
    }

    /// Reads a line of the configuration: `NAME SCOPE[,SCOPE…] sha256:HEX [until=MOMENT]`.
    pub fn parse(line: &str) -> Result<Self, Invalid> {
        let shape = || {
            let reason = "expected `NAME SCOPE[,SCOPE] sha256:64 HEX DIGITS [until=RFC3339]`, as `duewheel token new` prints it";
            // The line is not shown: somebody may have written the token itself.
            Invalid::new("token", "", reason)
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, scopes, digest, until) = match words.as_slice() {
            [name, scopes, digest] => (name, scopes, digest, None),
            [name, scopes, digest, until] => {
                (name, scopes, digest, Some(until.strip_prefix("until=").ok_or_else(shape)?))
            }
            _ => return Err(shape()),
        };
        Ok(Self {
            name: checked_name(name)?,
            scopes: scopes.split(',').map(Scope::parse).collect::<Result<_, _>>()?,
            until: until.map(|text| Moment::parse("until", text)).transpose()?,
            hash: digest.strip_prefix("sha256:").and_then(unhex).ok_or_else(shape)?,
        })
    }

    /// Whose it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may be used for that.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// A key that whoever keeps this token's line can make, and nobody else.
    #[cfg(feature = "page")]
    pub(super) fn key_for(&self, purpose: &[u8]) -> [u8; 32] {
        let mut out = [0; 32];
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.hash);
        out.copy_from_slice(ring::hmac::sign(&key, purpose).as_ref());
        out
    }
}

impl fmt::Display for Token {
    /// The line for the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.as_str()).collect();
        let hex: String = self.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        write!(f, "{} {} sha256:{hex}", self.name, scopes.join(","))?;
        self.until.map_or(Ok(()), |until| write!(f, " until={until}"))
    }
}

/// The token that was shown, if it is one of these and its time has not passed. Every token is compared, in constant time each.
pub(super) fn find<'a>(tokens: &'a [Token], shown: &str, now: Moment) -> Option<&'a Token> {
    let shown = hash(shown.as_bytes());
    let mut found = None;
    for token in tokens {
        if bool::from(token.hash.ct_eq(&shown)) {
            found = Some(token);
        }
    }
    found.filter(|token| token.until.is_none_or(|until| now < until))
}

fn hash(secret: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, secret).as_ref());
    out
}

fn checked_name(name: &str) -> Result<String, Invalid> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= 48 && name.chars().all(good) {
        Ok(name.to_owned())
    } else {
        let reason = "expected 1 to 48 letters, digits, -, _ or .";
        Err(Invalid::new("token name", name, reason))
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Moment {
        Moment::parse("", "2026-03-01T00:00:00Z").unwrap()
    }

    #[test]
    fn a_token_is_found_by_its_secret_alone_and_its_line_does_not_hold_it() {
        let (secret, token) = Token::generate("orders-api", &[Scope::Enqueue, Scope::Read], None).unwrap();
        let (other, _) = Token::generate("orders-api", &[Scope::Read], None).unwrap();
        let line = token.to_string();
        assert!(!line.contains(&secret[4..]));
        let kept = [Token::parse(&line).unwrap()];
        assert_eq!(kept[0], token);
        assert_eq!(find(&kept, &secret, now()).map(Token::name), Some("orders-api"));
        for wrong in ["", "dwt_", &other, &secret[..secret.len() - 1], &line] {
            assert!(find(&kept, wrong, now()).is_none());
        }
        assert!(token.allows(Scope::Read) && token.allows(Scope::Enqueue) && !token.allows(Scope::Operate));
    }

    #[test]
    fn a_token_ends_at_its_moment() {
        let (secret, token) = Token::generate("old", &[Scope::Read], Some(now())).unwrap();
        let kept = [Token::parse(&token.to_string()).unwrap()];
        let before = Moment::from_millis(now().as_millis() - 1).unwrap();
        assert!(find(&kept, &secret, before).is_some());
        assert!(find(&kept, &secret, now()).is_none());
    }

    #[test]
    fn a_line_of_another_shape_is_refused_and_not_repeated() {
        let hash = "a".repeat(64);
        for bad in [
            "",
            "dwt_secret",
            &format!("a read sha256:{}", &hash[1..]),
            &format!("a read {hash}"),
            &format!("a write sha256:{hash}"),
            &format!("a read sha256:{hash} 2026-03-01T00:00:00Z"),
            &format!("a/b read sha256:{hash}"),
            &format!("a  sha256:{hash}"),
        ] {
            let refused = Token::parse(bad).unwrap_err().to_string();
            assert!(!refused.contains("dwt_secret"), "{refused}");
        }
        assert!(Token::parse(&format!("a read,operate sha256:{hash}")).is_ok());
    }
}
