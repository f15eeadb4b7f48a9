//! Stored formats: the header in front of a body, the MessagePack body, and the record of an end. Format 1 of each; the layouts are
//! drawn in lua/lib/header.lua and lua/lib/ended.lua, and golden bytes in the tests hold them.
//!
//! To change a format: give it a new number, keep reading the old one here and in Lua, write the new one only when every running
//! version reads it (docs/decisions.md).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::answer::{Ended, Entry};
use crate::clock::Moment;
use crate::deadline::{Cause, Deadline, DueAt, Generation, Id, Note, Outcome, Payload, Reminders, Stage};
use crate::lease::Fence;
use crate::slot::{Slot, SlotWidth};

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 33;
/// Length of a header from due_at on.
const MOMENTS_BYTES: usize = 21;
/// Length of an ended record, in bytes; and of its tail, which leaves out format and ended_at.
pub const ENDED_BYTES: usize = 37;
const ENDED_TAIL: usize = 28;
const FORMAT: u8 = 1;

/// The caller's part of a body. Named fields, so that older and newer programs read each other's.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Body<'a> {
    /// Reminders. First of all, and only where there are any: lua/lib/stage.lua reads them where they stand, without decoding.
    #[serde(rename = "r", default, with = "serde_bytes", borrow, skip_serializing_if = "is_empty")]
    reminders: &'a [u8],
    #[serde(rename = "p", default, with = "serde_bytes", borrow)]
    payload: &'a [u8],
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
}

fn is_empty(bytes: &&[u8]) -> bool {
    bytes.is_empty()
}

/// The header, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub cause: Cause,
    pub level: u8,
    pub stage: Stage,
    pub generation: Generation,
    pub due_at: Moment,
    pub next_at: Moment,
    pub hold_count: u8,
    pub hold_total_ms: u32,
}

/// A new deadline from its moments on: due_at, next_at and no hold, as in the header, then the MessagePack part. What stands before
/// them in a header only Redis knows; for a window it fills in the moments, too. `reminders` are for one that does not say itself.
pub fn encode_new(deadline: &Deadline, reminders: &Reminders) -> Vec<u8> {
    let due_at = match deadline.due_at {
        DueAt::Moment(moment) => moment.as_millis(),
        DueAt::After(_) => 0,
    };
    let mut out = Vec::with_capacity(MOMENTS_BYTES + deadline.payload.as_bytes().len() + 72);
    out.extend(due_at.to_be_bytes());
    out.extend(due_at.to_be_bytes());
    out.extend([0; 5]);
    let reminders = deadline.reminders.as_ref().unwrap_or(reminders).to_stored();
    let body = Body {
        reminders: &reminders,
        payload: deadline.payload.as_bytes(),
        traceparent: deadline.traceparent.as_deref(),
    };
    // Writing named fields of bytes and text into memory cannot fail.
    let _ = body.serialize(&mut rmp_serde::Serializer::new(&mut out).with_struct_map());
    out
}

/// Header and MessagePack part as they are stored; for adopt.
pub fn encode_stored(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + entry.payload.as_bytes().len() + 16);
    out.extend([FORMAT, entry.cause as u8, entry.slot.level, entry.stage.0]);
    out.extend(entry.generation.0.to_be_bytes());
    out.extend(entry.due_at.as_millis().to_be_bytes());
    out.extend(entry.next_at.as_millis().to_be_bytes());
    out.push(u8::try_from(entry.hold_count).unwrap_or(u8::MAX));
    out.extend(u32::try_from(entry.hold_total.as_millis()).unwrap_or(u32::MAX).to_be_bytes());
    let reminders = entry.reminders.to_stored();
    let body = Body {
        reminders: &reminders,
        payload: entry.payload.as_bytes(),
        traceparent: entry.traceparent.as_deref(),
    };
    out.extend(rmp_serde::to_vec_named(&body).unwrap_or_default());
    out
}

/// Reads the header; `None` where it is not one of ours.
pub fn decode_header(stored: &[u8]) -> Option<Header> {
    let mut from = Reader(stored);
    if from.u8()? != FORMAT {
        return None;
    }
    Some(Header {
        cause: Cause::from_stored(from.u8()?)?,
        level: from.u8().filter(|level| *level <= crate::slot::MAX_LEVEL)?,
        stage: Stage(from.u8()?),
        generation: Generation(from.u64()?),
        due_at: Moment::from_millis(from.u64()?).ok()?,
        next_at: Moment::from_millis(from.u64()?).ok()?,
        hold_count: from.u8()?,
        hold_total_ms: u32::from_be_bytes(from.take()?),
    })
}

/// Reads payload, traceparent and reminders behind the header. A body that another program wrote in its own way is an empty payload:
/// the order is still closed by its id.
pub fn decode_body(stored: &[u8]) -> (Payload, Option<String>, Reminders) {
    let bytes = stored.get(HEADER_BYTES..).unwrap_or_default();
    let body: Body<'_> = rmp_serde::from_slice(bytes).unwrap_or_default();
    let reminders = Reminders::from_stored(body.reminders);
    (Payload::from_stored(body.payload.to_vec()), body.traceparent.map(str::to_owned), reminders)
}

/// Reads a whole stored deadline.
pub fn decode_entry(id: &Id, stored: &[u8], live: &[u8], width: SlotWidth) -> Option<Entry> {
    let header = decode_header(stored)?;
    let (payload, traceparent, reminders) = decode_body(stored);
    let live = Live::decode(live);
    Some(Entry {
        id: id.clone(),
        generation: header.generation,
        due_at: header.due_at,
        next_at: header.next_at,
        slot: Slot {
            level: header.level,
            number: header.next_at.as_millis() / width.level_width(header.level),
        },
        stage: header.stage,
        hold_count: header.hold_count.into(),
        hold_total: Duration::from_millis(header.hold_total_ms.into()),
        cause: header.cause,
        attempts: live.attempts,
        losses: live.losses,
        cancelled: live.cancelled,
        note: live.note,
        reminders,
        payload,
        traceparent,
    })
}

/// The `live` record: `<attempts> <losses> <flags>[\n<note>]`; lua/lib/live.lua writes it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Live {
    pub attempts: u32,
    pub losses: u32,
    pub cancelled: bool,
    pub note: Option<Note>,
}

impl Live {
    /// Reads the record; anything unreadable counts as nothing.
    pub fn decode(stored: &[u8]) -> Self {
        if stored.is_empty() {
            return Self::default();
        }
        let mut halves = stored.splitn(2, |byte| *byte == b'\n');
        let front = std::str::from_utf8(halves.next().unwrap_or_default()).unwrap_or_default();
        let mut words = front.split(' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let (attempts, losses) = (number(), number());
        let flags = words.next().unwrap_or_default();
        Self {
            attempts,
            losses,
            cancelled: flags.contains('c'),
            note: halves.next().and_then(|note| serde_json::from_slice(note).ok()),
        }
    }

    /// Writes the record; empty where nothing needs remembering.
    pub fn encode(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        let flags = if self.cancelled { "c" } else { "" };
        let mut out = format!("{} {} {flags}", self.attempts, self.losses).into_bytes();
        if let Some(note) = &self.note {
            out.push(b'\n');
            out.extend(serde_json::to_vec(note).unwrap_or_default());
        }
        out
    }
}

/// The record of an end without its first nine bytes: Redis's clock gives ended_at.
pub fn encode_ended_tail(
    outcome: Outcome,
    cause: Cause,
    attempt: u32,
    generation: Generation,
    due_at: Moment,
    fence: Fence,
) -> [u8; ENDED_TAIL] {
    let mut out = [0; ENDED_TAIL];
    out[0] = outcome as u8;
    out[1] = cause as u8;
    out[2..4].copy_from_slice(&u16::try_from(attempt).unwrap_or(u16::MAX).to_be_bytes());
    out[4..12].copy_from_slice(&generation.0.to_be_bytes());
    out[12..20].copy_from_slice(&due_at.as_millis().to_be_bytes());
    out[20..28].copy_from_slice(&fence.0.to_be_bytes());
    out
}

/// The whole record of an end; for adopt.
pub fn encode_ended(ended: &Ended) -> Vec<u8> {
    let mut out = vec![FORMAT];
    out.extend(ended.ended_at.as_millis().to_be_bytes());
    out.extend(encode_ended_tail(
        ended.outcome,
        ended.cause,
        ended.attempt,
        ended.generation,
        ended.due_at,
        ended.fence,
    ));
    out
}

/// Reads the record of an end.
pub fn decode_ended(stored: &[u8]) -> Option<Ended> {
    let mut from = Reader(stored);
    if stored.len() != ENDED_BYTES || from.u8()? != FORMAT {
        return None;
    }
    let ended_at = Moment::from_millis(from.u64()?).ok()?;
    Some(Ended {
        ended_at,
        outcome: Outcome::from_stored(from.u8()?)?,
        cause: Cause::from_stored(from.u8()?)?,
        attempt: u16::from_be_bytes(from.take()?).into(),
        generation: Generation(from.u64()?),
        due_at: Moment::from_millis(from.u64()?).ok()?,
        fence: Fence(from.u64()?),
    })
}

/// Takes big-endian numbers off the front of a slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}
