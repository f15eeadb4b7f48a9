//! Ids that begin alike. There is no index by id: the bodies and ends of each shard are walked through, a bounded stretch a call.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::answer::Cursor;
use super::{Wheel, reply};
use crate::deadline::Id;
use crate::error::{Invalid, Result};
use crate::shard::Shard;

/// Fields that one command walks over where they do not fit: a fraction of a millisecond of Redis's time.
const STRIDE: usize = 2000;
/// And where they do, so that a page does not become much longer than it should.
const FIRST_STRIDE: usize = 100;
/// A command answers with what is stored of each that fits, about so many bytes: where much is, the stride is shorter still.
const PAGE_BYTES: usize = 1 << 20;

/// What a stretch of the search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The ids, in their own order.
    pub ids: Vec<Id>,
    /// About how many ids were looked at.
    pub looked_at: u64,
    /// Where to go on; `None` when all were looked at.
    pub next: Option<Cursor>,
}

impl Wheel {
    /// Ids that begin with `prefix`: scheduled, leased and dead ones, and ends that are remembered.
    ///
    /// Stops when `limit` are found (a few more may come), when about `most` were looked at, or after `longest`; `next` goes on there. What
    /// is enqueued or ends meanwhile may be missed or come twice.
    pub async fn find(
        &self,
        prefix: &str,
        cursor: Option<&Cursor>,
        limit: usize,
        most: u64,
        longest: Duration,
    ) -> Result<Found> {
        let began = Instant::now();
        let pattern = format!("{}*", glob_escaped(prefix));
        let (mut shard, mut in_ended, mut place) =
            cursor.map_or(Ok((0, false, "0".to_owned())), parse_cursor)?;
        let (mut ids, mut looked_at, mut stride) = (BTreeSet::new(), 0, FIRST_STRIDE);
        while shard < self.shards().get() {
            let key = self.search_key(Shard(shard), in_ended);
            let mut cmd = redis::cmd("HSCAN");
            cmd.arg(key).arg(&place).arg("MATCH").arg(&pattern).arg("COUNT").arg(stride);
            let page = self.store().command(&cmd, &format!("search wheel {}", self.name())).await?;
            let mut page = reply::Reply::array("search", page)?;
            place = page.word()?;
            let mut pairs = reply::Reply::array("search", page.value()?)?;
            let (fits, mut bytes) = (pairs.len() / 2, 0);
            while pairs.len() >= 2 {
                let (id, stored) = (pairs.bytes()?, pairs.bytes()?);
                bytes += stored.len();
                ids.extend(Id::from_bytes(&id).ok());
            }
            looked_at += stride as u64;
            stride = next_stride(stride, fits, bytes);
            if place == "0" {
                (shard, in_ended) = if in_ended { (shard + 1, false) } else { (shard, true) };
            }
            if ids.len() >= limit || looked_at >= most || began.elapsed() >= longest {
                break;
            }
        }
        let kind = if in_ended { "e" } else { "b" };
        let next = (shard < self.shards().get()).then(|| Cursor(format!("{shard}.{kind}.{place}")));
        Ok(Found { ids: ids.into_iter().collect(), looked_at, next })
    }

    fn search_key(&self, shard: Shard, in_ended: bool) -> &str {
        let keys = &self.inner.keys;
        &keys[usize::from(shard.0) % keys.len()][if in_ended { 7 } else { 2 }]
    }
}

/// How many fields to walk over next, after so many of which so many fit.
fn next_stride(stride: usize, fits: usize, bytes: usize) -> usize {
    match fits {
        0 => (stride * 4).min(STRIDE),
        _ => (PAGE_BYTES / bytes.div_ceil(fits).max(1)).clamp(10, FIRST_STRIDE),
    }
}

fn parse_cursor(cursor: &Cursor) -> Result<(u16, bool, String)> {
    let parse = || {
        let mut parts = cursor.0.split('.');
        let shard = parts.next()?.parse().ok()?;
        let in_ended = match parts.next()? {
            "b" => false,
            "e" => true,
            _ => return None,
        };
        let place: u64 = parts.next()?.parse().ok()?;
        parts.next().is_none().then(|| (shard, in_ended, place.to_string()))
    };
    parse().ok_or_else(|| {
        Invalid::new("cursor", &cursor.0, "expected a cursor that a page of this search gave").into()
    })
}

/// Text as a pattern that only it fits.
pub(super) fn glob_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\' | '-') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_is_long_where_nothing_fits_and_short_where_much_is_stored() {
        assert_eq!(next_stride(FIRST_STRIDE, 0, 0), 4 * FIRST_STRIDE);
        assert_eq!(next_stride(STRIDE, 0, 0), STRIDE);
        assert_eq!(next_stride(STRIDE, 3, 3 * 200), FIRST_STRIDE);
        assert_eq!(next_stride(FIRST_STRIDE, 100, 100 * 65_536), 16);
        assert_eq!(next_stride(FIRST_STRIDE, 1, 0), FIRST_STRIDE);
    }

    #[test]
    fn a_cursor_of_another_form_is_refused_and_a_pattern_fits_its_text_alone() {
        assert_eq!(parse_cursor(&Cursor("3.e.17".to_owned())).unwrap(), (3, true, "17".to_owned()));
        for bad in ["", "3", "3.e", "3.x.1", "3.e.-1", "3.e.1.1", "99999.b.0", "3.e.1 MATCH"] {
            assert!(parse_cursor(&Cursor(bad.to_owned())).is_err(), "{bad}");
        }
        assert_eq!(glob_escaped("a*[b]?\\订"), "a\\*\\[b\\]\\?\\\\订");
    }
}
