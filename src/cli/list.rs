//! `duewheel list`: deadlines by state and time, page by page.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use super::row::{cells, row_json};
use crate::clock::Moment;
use crate::deadline::State;
use crate::error::escaped_json;
use crate::wheel::answer::{Cursor, Row};
use crate::wheel::{Look, Narrow};

/// Deadlines that one page looks at, and how long it may take, where it is narrowed by what has no index.
const MOST: u64 = 100_000;
const LONGEST: Duration = Duration::from_secs(1);

/// Arguments of `list`.
#[derive(Debug, Args)]
#[command(
    about = "Lists deadlines by state and time",
    long_about = "Lists deadlines in one state, oldest first (ended ones: in no order). One page, unless --all; the next page is \
                  asked for with the cursor that is said on stderr. With --json one object a line.\n\nThere is no index by attempts, reason or payload: narrowed \
                  by them, one page looks at about 100,000 deadlines at most, may be short, and goes on by its cursor.",
    after_help = "Examples:\n  duewheel list                                    what fires next\n  duewheel list --state due\n  \
                  duewheel list --state dead --all --json | jq -r .id\n  duewheel list --attempts 3\n  \
                  duewheel list --state dead --reason-holds 'status 500'\n  duewheel list --payload-holds user_id=4711\n  duewheel list --from 2026-03-01T00:00:00Z --to \
                  2026-03-02T00:00:00Z --limit 500"
)]
pub struct List {
    /// The state
    #[arg(long, value_enum, default_value_t)]
    state: Wanted,
    /// From this moment on
    #[arg(long, value_name = "RFC3339", value_parser = arguments::moment)]
    from: Option<Moment>,
    /// Up to this moment
    #[arg(long, value_name = "RFC3339", value_parser = arguments::moment)]
    to: Option<Moment>,
    /// Only with at least so many failed attempts (ended ones: attempts in all)
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    attempts: u32,
    /// Those that are dead or tried again, and whose reason holds this text
    #[arg(long, value_name = "TEXT")]
    reason_holds: Option<String>,
    /// Those whose payload has this value in this field, as in user_id=4711, or holds this text
    #[arg(long, value_name = "TEXT")]
    payload_holds: Option<String>,
    /// Rows of a page, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The page that the one before named
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// All pages
    #[arg(long)]
    all: bool,
}

/// The states that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Wanted {
    /// Waiting for their moment, due ones included
    #[default]
    Scheduled,
    /// Scheduled, and their moment has come
    Due,
    /// With a worker
    Leased,
    /// Waiting for a person
    Dead,
    /// Closed, skipped or cancelled, and still remembered
    Ended,
}

impl Wanted {
    fn state(self) -> State {
        match self {
            Self::Scheduled | Self::Due => State::Scheduled,
            Self::Leased => State::Leased,
            Self::Dead => State::Dead,
            Self::Ended => State::Ended,
        }
    }
}

/// Lists.
pub async fn run(args: &List, context: &Context, output: &mut Output) -> Outcome {
    if args.state == Wanted::Ended && (args.from.is_some() || args.to.is_some()) {
        return Err(Failure::Usage(
            "--from and --to do not select ended deadlines, which are in no order".to_owned(),
        ));
    }
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let narrow = Narrow {
        attempts: args.attempts,
        reason: given(&args.reason_holds),
        payload: given(&args.payload_holds),
    };
    if narrow.payload.is_some() && args.state == Wanted::Ended {
        let text = "--payload-holds does not select ended deadlines, whose payloads are not kept";
        return Err(Failure::Usage(text.to_owned()));
    }
    if narrow.reason.is_some() && args.state == Wanted::Ended {
        let text = "--reason-holds does not select ended deadlines, of which no reason is kept";
        return Err(Failure::Usage(text.to_owned()));
    }
    let wheel = context.wheel()?;
    let now = wheel.now().await?;
    let to = match args.state {
        Wanted::Due => args.to.unwrap_or(now).min(now),
        _ => args.to.unwrap_or(Moment::MAX),
    };
    let from = args.from.unwrap_or(Moment::EPOCH);
    let limit = if args.all { 500 } else { usize::from(args.limit) };
    let mut cursor = args.cursor.clone().map(Cursor);
    let (mut total, mut looked_at) = (0, 0);
    let look = Look { limit, most: MOST, longest: LONGEST };
    loop {
        let found =
            wheel.list_narrow(None, args.state.state(), from..=to, &narrow, cursor.as_ref(), look).await?;
        looked_at += found.looked_at;
        let page = found.page;
        total += page.rows.len();
        print(&page.rows, now, output)?;
        cursor = page.next;
        if cursor.is_none() || !args.all {
            break;
        }
    }
    match cursor {
        Some(next) if !narrow.is_wide() => output.note(&format!(
            "{total} of {looked_at} that were looked at; there may be more: --cursor {}, or --all",
            next.0
        )),
        Some(next) => output.note(&format!("there are more: --cursor {}, or --all", next.0)),
        None if total == 0 && !output.is_json() => output.note(&format!("none on wheel {}", wheel.name())),
        None => {}
    }
    Ok(Exit::Done)
}

/// Prints rows as a table, or as one object a line.
pub fn print(rows: &[Row], now: Moment, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        for row in rows {
            let text = row_json(row).map_err(std::io::Error::from)?;
            output.line(&escaped_json(&text))?;
        }
    } else if !rows.is_empty() {
        let rows = rows.iter().map(|row| cells(row, now)).collect();
        output.table(&["id", "state", "at", "when", "attempts", "remark"], rows)?;
    }
    Ok(())
}
