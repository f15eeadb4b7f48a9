//! A deadline as a client writes it: read once, here, into what the wheel takes.

use super::fields::Fields;
use super::problem::Problem;
use super::query::one_of;
use crate::clock::{Moment, parse_duration};
use crate::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload, Reminders};
use crate::trace::Traceparent;
use crate::wheel::{Wheel, WheelSettings};

/// The members of a body of PUT.
pub(super) const MEMBERS: &[&str] =
    &["in", "at", "due_at", "payload", "on_conflict", "remind", "reminders", "channel", "created_at"];
/// The members of an item of a batch.
pub(super) const ITEM_MEMBERS: &[&str] =
    &["id", "in", "at", "due_at", "payload", "remind", "reminders", "channel", "created_at", "traceparent"];
/// The words of `on_conflict`.
pub(super) const RULES: [&str; 4] = ["keep", "replace", "later", "earlier"];

/// The members of a body of PATCH.
pub(super) const MOVE_MEMBERS: &[&str] = &["in", "at", "due_at", "channel", "created_at"];

/// What an item asks of its channel, which only Redis's clock can answer.
#[derive(Debug)]
pub(super) struct Channel {
    name: String,
    field: &'static str,
    created_at: Option<Moment>,
}

/// The deadline that the members describe, and the channel it is to go through.
pub(super) fn deadline(
    id: Id,
    fields: &Fields<'_>,
    settings: &WheelSettings,
) -> Result<(Deadline, Option<Channel>), Problem> {
    let (field, due_at) = due_at(fields)?;
    within_reach(field, due_at, settings)?;
    let payload = match fields.raw("payload").map(|raw| raw.get()) {
        None | Some("null") => Payload::default(),
        Some(text) => Payload::from_json(text)?,
    };
    let channel = through(field, fields)?;
    let deadline =
        Deadline { id, due_at, payload, traceparent: None, cause: Cause::Due, reminders: reminders(fields)? };
    Ok((deadline, channel))
}

/// The channel that the members name, for a moment that the client calls `field`.
pub(super) fn through(field: &'static str, fields: &Fields<'_>) -> Result<Option<Channel>, Problem> {
    let created_at = fields.moment("created_at")?;
    match fields.text("channel")? {
        Some(name) => Ok(Some(Channel { name: name.into_owned(), field, created_at })),
        None if created_at.is_some() => {
            Err(Problem::unprocessable("created_at", "created_at: says nothing without channel"))
        }
        None => Ok(None),
    }
}

/// The deadline of an item of a batch.
pub(super) fn item(text: &str, settings: &WheelSettings) -> Result<(Deadline, Option<Channel>), Problem> {
    let fields = Fields::parse(text, ITEM_MEMBERS)?;
    let id = Id::new(&fields.needed("id")?)?;
    let (mut item, channel) = deadline(id, &fields, settings)?;
    item.traceparent = fields.text("traceparent")?.map(|text| text.into_owned());
    if let Some(text) = &item.traceparent {
        Traceparent::check("traceparent", text)?;
    }
    Ok((item, channel))
}

/// When it is due, and what the client calls it.
pub(super) fn due_at(fields: &Fields<'_>) -> Result<(&'static str, DueAt), Problem> {
    let given: Vec<&'static str> =
        ["in", "at", "due_at"].into_iter().filter(|name| fields.has(name)).collect();
    match given.as_slice() {
        ["in"] => Ok(("in", DueAt::After(fields.duration("in")?.unwrap_or_default()))),
        [at] => Ok((at, DueAt::Moment(fields.moment(at)?.unwrap_or(Moment::EPOCH)))),
        [] => Err(Problem::unprocessable("in", "when? in (a window) or at (a moment) is missing")),
        [_, second, ..] => {
            Err(Problem::unprocessable(second, format!("{}: expected one of them", given.join(" and "))))
        }
    }
}

/// Refuses what lies further ahead than the wheel allows: here, because the wheel would refuse all that is sent with it.
pub(super) fn within_reach(field: &str, due_at: DueAt, settings: &WheelSettings) -> Result<(), Problem> {
    let now = Moment::host_now();
    let moment = match due_at {
        DueAt::Moment(moment) => moment,
        DueAt::After(window) => now.plus(window),
    };
    // A minute of room, for a host whose clock is not Redis's.
    let room = std::time::Duration::from_secs(60);
    if moment.since(now) <= settings.max_ahead.saturating_sub(room) && moment.plus(room) < Moment::MAX {
        return Ok(());
    }
    let days = settings.max_ahead.as_secs() / 86_400;
    Err(Problem::unprocessable(field, format!("{field}: expected at most {days} days ahead")))
}

/// What to do with an id that is scheduled for another moment.
pub(super) fn on_conflict(word: Option<&str>) -> Result<OnConflict, Problem> {
    let word = word.unwrap_or("keep");
    one_of("on_conflict", word, &RULES)?;
    Ok(match word {
        "replace" => OnConflict::Replace,
        "later" => OnConflict::Later,
        "earlier" => OnConflict::Earlier,
        _ => OnConflict::Keep,
    })
}

fn reminders(fields: &Fields<'_>) -> Result<Option<Reminders>, Problem> {
    let name = if fields.has("remind") { "remind" } else { "reminders" };
    if name == "remind" && fields.has("reminders") {
        return Err(Problem::unprocessable("reminders", "remind and reminders: expected one of them"));
    }
    let Some(texts) = fields.texts(name)? else { return Ok(None) };
    let before: Vec<_> = texts.iter().map(|text| parse_duration(name, text)).collect::<Result<_, _>>()?;
    Ok(Some(Reminders::new(&before)?))
}

impl Channel {
    /// Whether the channel takes it, at `now` by Redis's clock.
    pub fn admit(&self, due_at: DueAt, wheel: &Wheel, now: Moment) -> Result<(), Problem> {
        let closes_at = match due_at {
            DueAt::Moment(moment) => moment,
            DueAt::After(window) => now.plus(window),
        };
        let age = closes_at.since(self.created_at.unwrap_or(now));
        let channels = &wheel.settings().channels;
        Ok(channels.admit(&self.name, self.field, closes_at.since(now), age)?)
    }
}
