//! A listing as a file: NDJSON or CSV, written while it is read, so that a million lines need no more memory than a page.

use std::collections::VecDeque;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use tokio::sync::OwnedSemaphorePermit;

use super::fault::{Fault, Outcome};
use super::filter::Filter;
use super::visit::Visit;
use crate::deadline::State;
use crate::error::Result;
use crate::shard::Shard;
use crate::wheel::Wheel;
use crate::wheel::answer::{Cursor, Row};
use crate::wheel::shape::{payload_json, row_json};

/// Rows read at once.
const PAGE: usize = 500;
const COLUMNS: &str =
    "id,state,due_at,fires_at,attempts,losses,holds,cause,reason,ended_at,outcome,payload\r\n";

/// `GET /wheels/{wheel}/deadlines.ndjson`.
pub(super) async fn ndjson(visit: Visit) -> Outcome {
    export(visit, false).await
}

/// `GET /wheels/{wheel}/deadlines.csv`.
pub(super) async fn csv(visit: Visit) -> Outcome {
    export(visit, true).await
}

async fn export(visit: Visit, is_csv: bool) -> Outcome {
    let now = visit.wheel().now().await?;
    let mut complaints = Vec::new();
    let filter = Filter::read(&visit.query, now, visit.wheel().shards(), &mut complaints);
    // A page shows what it understood; a file that lies in a folder later does not say what it left out.
    if !complaints.is_empty() {
        return Err(Fault::bad(complaints.join("; ")));
    }
    let Ok(room) = visit.api.streams.clone().try_acquire_owned() else { return Err(Fault::busy()) };
    let (name, state) = (visit.wheel().name().clone(), filter.state);
    let writing = Writing::new(visit.wheel().clone(), filter, is_csv, room);
    let stream = futures_util::stream::unfold(writing, |mut writing| async move {
        let piece = writing.next().await?;
        Some((piece, writing))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let (kind, end) =
        if is_csv { ("text/csv; charset=utf-8", "csv") } else { ("application/x-ndjson", "ndjson") };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(file) = HeaderValue::try_from(format!("attachment; filename=\"{name}-{state}.{end}\"")) {
        headers.insert(CONTENT_DISPOSITION, file);
    }
    Ok(response)
}

/// What is still to be written. Shard after shard: in order of time over all of them each page would be read from each shard.
struct Writing {
    wheel: Wheel,
    filter: Filter,
    is_csv: bool,
    shards: VecDeque<Shard>,
    cursor: Option<Cursor>,
    has_begun: bool,
    _room: OwnedSemaphorePermit,
}

impl Writing {
    fn new(wheel: Wheel, filter: Filter, is_csv: bool, room: OwnedSemaphorePermit) -> Self {
        let shards =
            wheel.shards().all().filter(|shard| filter.shard.is_none_or(|only| only == *shard)).collect();
        Self { wheel, filter, is_csv, shards, cursor: None, has_begun: false, _room: room }
    }

    /// The next piece. An error ends the connection, so that a file that is cut off is not taken for a whole one.
    async fn next(&mut self) -> Option<Result<Bytes>> {
        if !self.has_begun {
            self.has_begun = true;
            if self.is_csv {
                return Some(Ok(Bytes::from_static(COLUMNS.as_bytes())));
            }
        }
        loop {
            let shard = *self.shards.front()?;
            let (from, to) = self.filter.range();
            let state = self.filter.of_state();
            let page =
                match self.wheel.list_of(Some(shard), state, from, to, self.cursor.as_ref(), PAGE).await {
                    Ok(page) => page,
                    Err(e) => {
                        tracing::warn!(error = %e, "an export was cut off");
                        self.shards.clear();
                        return Some(Err(e));
                    }
                };
            self.cursor = page.next;
            if self.cursor.is_none() {
                self.shards.pop_front();
            }
            let text: String = page
                .rows
                .iter()
                .filter(|row| self.filter.narrow.fits(row))
                .map(|row| if self.is_csv { csv_line(row) } else { json_line(row) })
                .collect();
            if !text.is_empty() {
                return Some(Ok(Bytes::from(text)));
            }
        }
    }
}

fn json_line(row: &Row) -> String {
    row_json(row).map_or_else(|_| String::new(), |line| line + "\n")
}

fn csv_line(row: &Row) -> String {
    let cells: [String; 12] = match row {
        Row::Live { state, at, entry, reason } => [
            entry.id.as_str().to_owned(),
            state.as_str().to_owned(),
            entry.due_at.to_string(),
            if *state == State::Scheduled { at.to_string() } else { entry.next_at.to_string() },
            entry.attempts.to_string(),
            entry.losses.to_string(),
            entry.hold_count.to_string(),
            entry.cause.as_str().to_owned(),
            reason.clone().unwrap_or_default(),
            if *state == State::Dead { at.to_string() } else { String::new() },
            String::new(),
            payload_json(&entry.payload).map(|json| json.get().to_owned()).unwrap_or_default(),
        ],
        Row::Ended { id, ended } => [
            id.as_str().to_owned(),
            "ended".to_owned(),
            ended.due_at.to_string(),
            String::new(),
            ended.attempt.to_string(),
            String::new(),
            String::new(),
            ended.cause.as_str().to_owned(),
            String::new(),
            ended.ended_at.to_string(),
            ended.outcome.as_str().to_owned(),
            String::new(),
        ],
        Row::Foreign { id, state, reason } => {
            let mut cells: [String; 12] = Default::default();
            (cells[0], cells[1], cells[8]) = (id.clone(), state.as_str().to_owned(), reason.clone());
            cells
        }
    };
    cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\r\n"
}

/// A cell of RFC 4180. One that a spreadsheet would take for a formula begins with an apostrophe.
fn quoted(cell: &str) -> String {
    let risky = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    let cell = if risky { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(quoted("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(quoted("@cmd"), "'@cmd");
        assert_eq!(quoted("-5"), "-5");
    }
}
