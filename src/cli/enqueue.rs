//! `duewheel enqueue`: one deadline by its id, or many from a file.

mod bulk;
mod line;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use super::payload;
use super::row::{enqueued_json, refusal_json, refusal_text};
use crate::clock::{Moment, distance};
use crate::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Reminders};
use crate::error::{Invalid, escaped};
use crate::wheel::Wheel;

/// Arguments of `enqueue`.
#[derive(Debug, Args)]
#[command(
    about = "Places deadlines: one by its id, or many from a file",
    override_usage = "duewheel enqueue ID (--in DURATION | --at RFC3339) [OPTIONS]\n       duewheel enqueue --file FILE [OPTIONS]",
    long_about = "Places deadlines. Repeating it is harmless: the same id with the same moment answers `exists`.\n\nAn id that is \
                  scheduled for another moment answers `conflict` (see --on-conflict); one that a worker has, that is dead or that \
                  has ended is refused with that word, exit code 6. A moment that has passed is due now; a warning says so.\n\nA \
                  file holds one JSON object a line: {\"id\", \"due_at\" or \"in\", \"payload\", \"traceparent\", \"remind\", \"channel\", \
                  \"created_at\"}. A broken line, or one that breaks its channel's rules, is \
                  reported with its number and left out; the others are stored. A run that was cut off is gone on with by running it \
                  again (lines with due_at answer `exists`), or from the line that it named (--from-line); a repeated window (`in`) \
                  never moves a deadline that is stored.",
    after_help = "Examples:\n  duewheel enqueue o-1042 --in 30m\n  duewheel enqueue o-1042 --at 2026-03-01T12:00:00+08:00 --payload \
                  '{\"user_id\":7}'\n  duewheel enqueue o-1042 --in 1h --on-conflict later\n  duewheel enqueue o-1042 --in 30m --remind 5m --remind 1m\n  duewheel enqueue --file orders.ndjson\n  \
                  mysql -N -e \"SELECT JSON_OBJECT('id', order_sn, 'due_at', …)\" shop | duewheel enqueue --file -"
)]
pub struct Enqueue {
    /// The order
    #[arg(value_name = "ID", value_parser = arguments::id, required_unless_present = "file", conflicts_with = "file")]
    id: Option<Id>,
    #[command(flatten)]
    when: OptionalWhen,
    /// What the hook is given: JSON, @FILE, or - for stdin; at most 64 KiB, kept byte for byte
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with = "file", allow_hyphen_values = true)]
    payload: Option<String>,
    /// W3C traceparent of the caller's span
    #[arg(long, value_name = "TRACEPARENT", conflicts_with = "file")]
    traceparent: Option<String>,
    /// Reminds this long before the close; may be given again. Without it: as the wheel is configured
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["file", "no_remind"], value_parser = arguments::duration)]
    remind: Vec<std::time::Duration>,
    /// Reminds of nothing, whatever the wheel's configuration says
    #[arg(long, conflicts_with = "file")]
    no_remind: bool,
    #[command(flatten)]
    through: ThroughChannel,
    /// NDJSON to read deadlines from; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "channel")]
    file: Option<String>,
    /// Goes on from this line of the file
    #[arg(long, value_name = "N", default_value_t = 1, requires = "file", value_parser = clap::value_parser!(u64).range(1..))]
    from_line: u64,
    /// What to do with an id that is scheduled for another moment
    #[arg(long, value_enum, default_value_t)]
    on_conflict: Conflict,
    /// Gives a new life to an order that has ended
    #[arg(long)]
    force: bool,
}

/// [`arguments::When`] that a file does without.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct OptionalWhen {
    /// The window from now, by Redis's clock: 30m, 1h30m, 90s; units y, d, h, m, s, ms
    #[arg(long = "in", value_name = "DURATION", value_parser = arguments::duration, conflicts_with = "file", allow_hyphen_values = true)]
    window: Option<std::time::Duration>,
    /// The moment, with its offset: 2026-03-01T12:00:00+08:00, or 13-digit epoch milliseconds. One that has passed is due now
    #[arg(long = "at", value_name = "RFC3339", value_parser = arguments::moment, conflicts_with = "file", allow_hyphen_values = true)]
    moment: Option<Moment>,
}

/// The payment channel of an order, whose rules its moment must obey.
#[derive(Debug, Args)]
pub struct ThroughChannel {
    /// The payment channel, whose rules the moment must obey ([wheel.NAME.channel.CHANNEL])
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// When the order was created, for a channel's min_age [default: now]
    #[arg(long, value_name = "RFC3339", requires = "channel", value_parser = arguments::moment)]
    created_at: Option<Moment>,
}

impl ThroughChannel {
    /// Refuses a moment that the channel, where there is one, does not allow.
    pub async fn admit(&self, wheel: &Wheel, due_at: DueAt) -> crate::error::Result<()> {
        let Some(channel) = self.channel.clone() else { return Ok(()) };
        let field = if matches!(due_at, DueAt::Moment(_)) { "--at" } else { "--in" };
        let through = Through { channel, created_at: self.created_at };
        Ok(through.admit(wheel, field, due_at, wheel.now().await?)?)
    }
}

/// A channel, and when the order that is paid through it was created; `None` for now.
#[derive(Debug)]
struct Through {
    channel: String,
    created_at: Option<Moment>,
}

impl Through {
    fn admit(&self, wheel: &Wheel, field: &str, due_at: DueAt, now: Moment) -> Result<(), Invalid> {
        let closes_at = match due_at {
            DueAt::Moment(moment) => moment,
            DueAt::After(window) => now.plus(window),
        };
        let age = closes_at.since(self.created_at.unwrap_or(now));
        wheel.settings().channels.admit(&self.channel, field, closes_at.since(now), age)
    }
}

/// The words of `--on-conflict`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum Conflict {
    /// Change nothing and answer `conflict`
    #[default]
    Keep,
    /// Take the new moment and payload
    Replace,
    /// Take the new moment only if it is later
    Later,
    /// Take the new moment only if it is earlier
    Earlier,
}

impl From<Conflict> for OnConflict {
    fn from(word: Conflict) -> Self {
        match word {
            Conflict::Keep => Self::Keep,
            Conflict::Replace => Self::Replace,
            Conflict::Later => Self::Later,
            Conflict::Earlier => Self::Earlier,
        }
    }
}

impl Enqueue {
    fn reminders(&self) -> Result<Option<Reminders>, Invalid> {
        match (self.no_remind, self.remind.as_slice()) {
            (true, _) => Ok(Some(Reminders::default())),
            (false, []) => Ok(None),
            (false, before) => Reminders::new(before).map(Some),
        }
    }
}

/// Places one deadline, or those of a file.
pub async fn run(args: &Enqueue, context: &Context, output: &mut Output) -> Outcome {
    if let Some(file) = &args.file {
        let rules = bulk::Rules {
            file,
            from_line: args.from_line,
            on_conflict: args.on_conflict.into(),
            force: args.force,
        };
        return bulk::run(&rules, &context.wheel()?, output).await;
    }
    let due_at = match (args.when.moment, args.when.window) {
        (Some(moment), _) => DueAt::Moment(moment),
        (None, Some(window)) => DueAt::After(window),
        (None, None) => {
            return Err(Failure::Usage("when? --in DURATION or --at RFC3339 is missing".to_owned()));
        }
    };
    let Some(id) = args.id.clone() else {
        return Err(Failure::Usage("which order? ID is missing".to_owned()));
    };
    let deadline = Deadline {
        id,
        due_at,
        payload: payload::read(args.payload.as_deref())?,
        traceparent: args.traceparent.as_deref().map(traceparent).transpose()?,
        cause: Cause::Due,
        reminders: args.reminders()?,
    };
    let wheel = context.wheel()?;
    args.through.admit(&wheel, due_at).await?;
    one(&deadline, args, &wheel, output).await
}

async fn one(deadline: &Deadline, args: &Enqueue, wheel: &Wheel, output: &mut Output) -> Outcome {
    let (name, id) = (wheel.name().as_str(), deadline.id.as_str());
    match wheel.enqueue(deadline, args.on_conflict.into(), args.force).await? {
        Ok(enqueued) => {
            // The absolute moment is echoed, so that a mistaken unit is seen.
            let now = if output.is_json() { Moment::host_now() } else { wheel.now().await? };
            if matches!(deadline.due_at, DueAt::Moment(moment) if moment < now) {
                output.warn(&format!("{} has passed: due now", enqueued.due_at));
            }
            let how = enqueued.how.as_str();
            let text = format!(
                "{name} {}: {how}, due {} ({})",
                escaped(id),
                enqueued.due_at,
                distance(enqueued.due_at, now)
            );
            let object = enqueued_json(name, id, &enqueued);
            output.say(&text, &object)?;
            Ok(Exit::Done)
        }
        Err(refusal) => {
            let text = format!("{name} {}: not enqueued: {}", escaped(id), refusal_text(&refusal));
            output.say(&text, &refusal_json(name, id, &refusal))?;
            Ok(Exit::of_refusal(&refusal))
        }
    }
}

/// Checks a W3C traceparent.
fn traceparent(text: &str) -> Result<String, Invalid> {
    crate::trace::Traceparent::check("traceparent", text).map(|_| text.to_owned())
}

/// A bar for something that takes its time, drawn only where a person looks. Without a length it counts.
pub fn progress(output: &Output, length: Option<u64>) -> ProgressBar {
    let target = if output.draws_progress() {
        ProgressDrawTarget::stderr_with_hz(5)
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(length, target);
    let template =
        if length.is_some() { "{bar:40} {bytes}/{total_bytes} {msg}" } else { "{spinner} {human_pos} {msg}" };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
