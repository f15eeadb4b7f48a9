//! What happened, as it happens: the events of all shards as a stream of server-sent events, gone on with where the client left off.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, Sse};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::Api;
use super::call::{Call, Outcome};
use super::problem::Problem;
use super::query::one_of;
use crate::clock::Moment;
use crate::error::StoreKind;
use crate::wheel::{EVENT_KINDS, EventReader, ShardEvent};

/// Between two looks; what happened is told at most about this much later.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause while Redis is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long nothing may be said: proxies and clients give a silent connection up.
const SILENCE: Duration = Duration::from_secs(15);

/// `GET …/events`.
pub(super) async fn follow(api: &Arc<Api>, call: Call) -> Outcome {
    let kinds: Vec<String> =
        call.query.all("type").flat_map(|kinds| kinds.split(',')).map(str::to_owned).collect();
    for kind in &kinds {
        one_of("type", kind, &EVENT_KINDS)?;
    }
    let after = last_event_id(&call.headers)?;
    let back = call.query.duration("since")?.unwrap_or_default();
    let Ok(room) = api.streams.clone().try_acquire_owned() else {
        return Err(Problem::busy("too many event streams are open"));
    };
    let since = match after {
        Some(place) => Moment::from_millis(place.0).unwrap_or(Moment::MAX),
        None => {
            let now = call.wheel().now().await.map_err(|e| call.failed(&e))?.as_millis();
            let back = u64::try_from(back.as_millis()).unwrap_or(u64::MAX);
            Moment::EPOCH.plus(Duration::from_millis(now.saturating_sub(back)))
        }
    };
    let following = Following {
        reader: call.wheel().events(since),
        kinds,
        after,
        has_opened: false,
        page: Vec::new().into_iter(),
        last: None,
        said: Instant::now(),
        pause: PAUSE,
        stop: api.stop.clone(),
        _room: room,
    };
    let stream = futures_util::stream::unfold(following, |mut following| async move {
        let event = following.next().await?;
        Some((Ok::<_, Infallible>(event), following))
    });
    Ok(Sse::new(stream).into_response())
}

/// Where an event stands: milliseconds and number of its stream entry, shard, place within the entry. Their order is the order of telling.
type Place = (u64, u64, u16, usize);

struct Following {
    reader: EventReader,
    kinds: Vec<String>,
    /// What was told last.
    after: Option<Place>,
    has_opened: bool,
    /// Read, and put into words one by one as the client takes them.
    page: std::vec::IntoIter<ShardEvent>,
    /// What was last taken from the page.
    last: Option<Place>,
    said: Instant,
    pause: Duration,
    stop: CancellationToken,
    _room: OwnedSemaphorePermit,
}

impl Following {
    /// The next thing to say; `None` when the server stops.
    async fn next(&mut self) -> Option<Event> {
        let event = self.find().await?;
        self.said = Instant::now();
        Some(event)
    }

    async fn find(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.has_opened, true) {
            // Says at once that it is open, and how soon to come back.
            return Some(Event::default().comment("open").retry(Duration::from_secs(1)));
        }
        while !self.stop.is_cancelled() {
            if let Some(event) = self.take() {
                return Some(event);
            }
            if self.said.elapsed() >= SILENCE {
                return Some(Event::default().comment("still here"));
            }
            let pause = self.look().await;
            if self.page.len() == 0 && !pause.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.stop.cancelled() => return None,
                }
            }
        }
        None
    }

    /// Reads on; answers how long to wait before the next look.
    async fn look(&mut self) -> Duration {
        match self.reader.read().await {
            Ok(page) => {
                self.pause = PAUSE;
                self.page = page.events.into_iter();
                if page.more { Duration::ZERO } else { PAUSE }
            }
            Err(e) => {
                let kind = e.store_kind();
                if !kind.is_some_and(|kind| kind.is_temporary() || kind == StoreKind::Unknown) {
                    tracing::warn!(error = %e, "events cannot be read; asking again");
                }
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.pause
            }
        }
    }

    /// The next of the page that the client wants and has not seen.
    fn take(&mut self) -> Option<Event> {
        loop {
            let event = self.page.next()?;
            let Some((ms, number)) = stamp(&event.entry) else { continue };
            let index = match self.last {
                Some((.., index)) if self.last == Some((ms, number, event.shard, index)) => index + 1,
                _ => 0,
            };
            let place = (ms, number, event.shard, index);
            self.last = Some(place);
            let wanted = self.kinds.is_empty() || self.kinds.contains(&event.what);
            if wanted && self.after.is_none_or(|after| place > after) {
                return Some(told(&event, place));
            }
        }
    }
}

/// `event`, `id` and `data` of one.
fn told(event: &ShardEvent, (ms, number, shard, index): Place) -> Event {
    // What Redis holds is not ours to trust: a word with a line end in it would forge another event.
    let word = if EVENT_KINDS.contains(&event.what.as_str()) { event.what.as_str() } else { "other" };
    let data = serde_json::to_string(event).unwrap_or_default();
    Event::default().event(word).id(format!("{ms}-{number}.{shard}.{index}")).data(data)
}

fn stamp(entry: &str) -> Option<(u64, u64)> {
    let (ms, number) = entry.split_once('-')?;
    Some((ms.parse().ok()?, number.parse().ok()?))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<Place>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let place = || {
        let mut parts = value.to_str().ok()?.split('.');
        let (ms, number) = stamp(parts.next()?)?;
        let place = (ms, number, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(place)
    };
    place().map(Some).ok_or_else(|| {
        let detail = "expected Last-Event-ID as the id of an event of this stream";
        Problem::bad_request("bad_last_event_id", detail).of_field("Last-Event-ID")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_where_an_event_stands_and_nothing_else_is_taken_for_one() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("last-event-id", text.parse().unwrap());
            last_event_id(&headers)
        };
        assert_eq!(of("1772337600000-3.7.12").unwrap(), Some((1_772_337_600_000, 3, 7, 12)));
        for bad in ["", "1", "1-2", "1-2.3", "1-2.3.4.5", "a-2.3.4", "1-2.99999.4", "-1-2.3.4"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert_eq!(last_event_id(&HeaderMap::new()).unwrap(), None);
    }
}
