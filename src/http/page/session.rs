//! Who is logged in: a cookie that holds the token, sealed. The server keeps nothing of it, so that any server with the same tokens takes
//! it, and one that was started anew does, too; a token that is taken off the list, or whose time is over, ends its sessions with it.
//!
//! The key of a seal is made from the line of its token, which only servers have: a cookie that leaked is good for the page until its own
//! end, and not as a token. The line does not suffice to make one, because the token itself is inside.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::clock::Moment;
use crate::http::token::{Token, find};

/// How long a login lasts: a shift.
pub(super) const LIFE: Duration = Duration::from_secs(12 * 3600);
/// What the key is for; a cookie of another form would have another number.
const PURPOSE: &[u8] = b"duewheel page session 1";
/// Sessions remembered as ended, at most.
const MOST_ENDED: usize = 10_000;

/// Sessions that were ended by their owner before their time. Only this server knows of them.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    ended: Mutex<HashMap<[u8; NONCE_LEN], Moment>>,
}

impl Sessions {
    /// The value of the cookie for the holder of this token; `None` where the system gives no random bytes.
    pub fn seal(&self, token: &Token, secret: &str, now: Moment) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = now.plus(LIFE).as_millis().to_be_bytes().to_vec();
        sealed.extend_from_slice(secret.as_bytes());
        key(token)?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(PURPOSE), &mut sealed)
            .ok()?;
        let bytes = [nonce.as_slice(), &sealed].concat();
        Some(format!("{}~{}", token.name(), URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The token of whoever shows this cookie, while it holds.
    pub fn open<'a>(&self, tokens: &'a [Token], cookie: &str, now: Moment) -> Option<&'a Token> {
        let (token, nonce, until, secret) = unseal(tokens, cookie)?;
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&nonce);
        if ended || now >= until {
            return None;
        }
        find(std::slice::from_ref(token), &secret, now)
    }

    /// Ends a session: this server does not take its cookie any more.
    pub fn end(&self, tokens: &[Token], cookie: &str, now: Moment) {
        let Some((_, nonce, until, _)) = unseal(tokens, cookie) else { return };
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|_, until| now < *until);
        if ended.len() < MOST_ENDED {
            ended.insert(nonce, until);
        }
    }
}

fn unseal<'a>(tokens: &'a [Token], cookie: &str) -> Option<(&'a Token, [u8; NONCE_LEN], Moment, String)> {
    let (name, text) = cookie.split_once('~')?;
    let token = tokens.iter().find(|token| token.name() == name)?;
    let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let nonce: [u8; NONCE_LEN] = bytes.get(..NONCE_LEN)?.try_into().ok()?;
    let opened = key(token)?
        .open_within(Nonce::assume_unique_for_key(nonce), Aad::from(PURPOSE), &mut bytes, NONCE_LEN..)
        .ok()?;
    let (until, secret) = opened.split_at_checked(8)?;
    let until = Moment::from_millis(u64::from_be_bytes(until.try_into().ok()?)).ok()?;
    Some((token, nonce, until, std::str::from_utf8(secret).ok()?.to_owned()))
}

fn key(token: &Token) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, &token.key_for(PURPOSE)).ok().map(LessSafeKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::token::Scope;

    fn token(name: &str) -> (String, Token) {
        Token::generate(name, &[Scope::Read], None).unwrap()
    }

    #[test]
    fn any_server_with_the_same_tokens_takes_a_session_and_none_takes_a_changed_one() {
        let (secret, night) = token("night");
        let (_, other) = token("other");
        let now = Moment::host_now();
        let cookie = Sessions::default().seal(&night, &secret, now).unwrap();
        let tokens = [other, night.clone()];
        let elsewhere = Sessions::default();
        assert_eq!(elsewhere.open(&tokens, &cookie, now).map(Token::name), Some("night"));
        assert!(
            !cookie.contains(&secret)
                && cookie.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b))
        );

        let (head, tail) = cookie.split_at(cookie.len() - 2);
        let changed = format!("{head}{}", if tail == "AA" { "BB" } else { "AA" });
        let renamed = cookie.replace("night~", "other~");
        for bad in ["", "~", "night", "night~", "night~AAAA", &changed, &renamed, &secret] {
            assert!(elsewhere.open(&tokens, bad, now).is_none(), "{bad}");
        }
        // The token was taken off the list, or replaced by another of its name.
        assert!(elsewhere.open(&tokens[..1], &cookie, now).is_none());
        assert!(elsewhere.open(&[token("night").1], &cookie, now).is_none());
    }

    #[test]
    fn a_session_ends_with_its_time_and_with_its_owner() {
        let (secret, night) = token("night");
        let (sessions, now, tokens) = (Sessions::default(), Moment::host_now(), [night.clone()]);
        let cookie = sessions.seal(&night, &secret, now).unwrap();
        assert!(sessions.open(&tokens, &cookie, now.plus(LIFE - Duration::from_millis(1))).is_some());
        assert!(sessions.open(&tokens, &cookie, now.plus(LIFE)).is_none());
        let second = sessions.seal(&night, &secret, now).unwrap();
        sessions.end(&tokens, &cookie, now);
        assert!(sessions.open(&tokens, &cookie, now).is_none());
        assert!(sessions.open(&tokens, &second, now).is_some(), "another login goes on");
    }
}
