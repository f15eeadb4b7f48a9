//! The loop: draws, waits for a key, a signal, a look or the end of an act, and begins again.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{Event, KeyEventKind};
use tokio::task::JoinHandle;

use super::super::exit::Exit;
use super::super::failure::{Failure, Outcome};
use super::super::signals::{Asked, Signals};
use super::deed::Deed;
use super::keys::{Ask, press};
use super::look::{Listing, Reader, Seen};
use super::model::{Model, Overlay, Tab};
use super::terminal::{Events, Taken};
use super::view;
use crate::deadline::{Id, State};
use crate::error::{Result, escaped};
use crate::operator::Operator;

/// A look that took long is followed by a pause so many times as long: whoever watches must not become the load.
const REST: u32 = 4;
/// Redis has so long to answer one look before it counts as away; its own time limits are for single calls.
const LOOK_TIMEOUT: Duration = Duration::from_secs(15);

type Looked = (Reader, Result<(Seen, Option<(Tab, Listing)>)>, Duration);
type Told = (Id, Result<(State, Vec<String>)>);
type Performed = Result<(String, bool)>;

/// The screen in action.
pub struct Screen {
    model: Model,
    /// `None` while a look is under way with it.
    reader: Option<Reader>,
    stories: Reader,
    operator: Operator,
    interval: Duration,
    look: Option<JoinHandle<Looked>>,
    story: Option<JoinHandle<Told>>,
    act: Option<JoinHandle<Performed>>,
    next_look: Instant,
    /// Whether something changed while a look was under way.
    again: bool,
    away_since: Option<Instant>,
}

impl Screen {
    /// Ready to run.
    pub fn new(model: Model, reader: Reader, operator: Operator, interval: Duration) -> Self {
        Self {
            model,
            stories: reader.clone(),
            reader: Some(reader),
            operator,
            interval,
            look: None,
            story: None,
            act: None,
            next_look: Instant::now(),
            again: false,
            away_since: None,
        }
    }

    /// Runs until somebody ends it; the terminal is given back on every way out.
    pub async fn run(mut self) -> Outcome {
        let mut signals = Signals::listen_in_terminal()?;
        let mut taken = Taken::take()?;
        let mut events = Events::read();
        loop {
            self.begin_look();
            taken.canvas.draw(|frame| view::draw(frame, &mut self.model))?;
            tokio::select! {
                event = events.next() => match event? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        if let Some(ask) = press(&mut self.model, key)
                            && let Some(exit) = self.answer(ask, &mut taken)?
                        {
                            return Ok(exit);
                        }
                    }
                    _ => {}
                },
                signal = signals.next() => match signal {
                    Asked::End(exit) => return Ok(exit),
                    // The terminal is gone, and with it whoever looked.
                    Asked::Hangup => return Ok(Exit::Done),
                    Asked::Stop => taken.suspend()?,
                    Asked::Continue => taken.retake()?,
                },
                looked = finished(&mut self.look) => self.take_look(looked),
                told = finished(&mut self.story) => self.take_story(told),
                performed = finished(&mut self.act) => self.take_act(performed),
                () = tokio::time::sleep_until(self.next_look.into()), if self.look.is_none() => {}
            }
        }
    }

    /// Does what a key asked for; answers how to end where it asked for that.
    fn answer(&mut self, ask: Ask, taken: &mut Taken) -> std::result::Result<Option<Exit>, Failure> {
        match ask {
            Ask::Quit => return Ok(Some(Exit::Done)),
            Ask::Look => self.look_now(),
            Ask::Suspend => taken.suspend()?,
            Ask::Copy(id) => {
                taken.copy(&id)?;
                self.model.say(&format!("copied {id}"), false);
            }
            Ask::Story(id) => self.begin_story(id),
            Ask::Do(deed, reason) => self.begin_act(deed, reason),
        }
        Ok(None)
    }

    fn begin_look(&mut self) {
        if self.look.is_some() || Instant::now() < self.next_look {
            return;
        }
        let Some(mut reader) = self.reader.take() else { return };
        let (tab, wanted, filter) = (self.model.tab, self.model.wanted, self.model.filter.clone());
        // A filter that is still being typed chooses nothing yet.
        let filter = match &self.model.overlay {
            Overlay::Filter(before) => before.clone(),
            _ => filter,
        };
        self.look = Some(tokio::spawn(async move {
            let began = Instant::now();
            let all = async {
                let seen = reader.look().await?;
                let listing = match tab {
                    Tab::Deadlines | Tab::Dead => Some((tab, reader.list(tab, wanted, &filter).await?)),
                    _ => None,
                };
                Ok((seen, listing))
            };
            let outcome = tokio::time::timeout(LOOK_TIMEOUT, all).await;
            let outcome = outcome.unwrap_or_else(|_| Err(slow()));
            (reader, outcome, began.elapsed())
        }));
    }

    /// Looks as soon as may be: one that is under way may have seen what was before.
    fn look_now(&mut self) {
        self.again = self.look.is_some();
        self.next_look = Instant::now();
    }

    fn take_look(&mut self, looked: Option<Looked>) {
        self.look = None;
        let Some((reader, outcome, took)) = looked else {
            // A look that broke has taken its reader with it.
            self.reader = Some(self.stories.clone());
            self.next_look = Instant::now() + self.interval;
            return;
        };
        self.reader = Some(reader);
        self.next_look = Instant::now() + self.interval.max(took * REST);
        if std::mem::take(&mut self.again) {
            self.next_look = Instant::now();
        }
        match outcome {
            Ok((seen, listing)) => {
                self.away_since = None;
                self.model.take(seen, listing);
            }
            Err(e) => {
                let since = *self.away_since.get_or_insert_with(Instant::now);
                let is_away = e.store_kind().is_some_and(crate::error::StoreKind::is_temporary);
                let what = if is_away { "Redis is away" } else { "the wheel cannot be read" };
                self.model.trouble = Some((format!("{what}: {}", escaped(&e.to_string())), since.elapsed()));
            }
        }
    }

    fn begin_story(&mut self, id: Id) {
        let reader = self.stories.clone();
        if let Some(before) = self.story.replace(tokio::spawn(async move {
            let story = tokio::time::timeout(LOOK_TIMEOUT, reader.story(&id)).await;
            (id, story.unwrap_or_else(|_| Err(slow())))
        })) {
            before.abort();
        }
    }

    fn take_story(&mut self, told: Option<Told>) {
        self.story = None;
        if let (Some((id, story)), Overlay::Detail(detail)) = (told, &mut self.model.overlay)
            && detail.id == id
        {
            detail.lines = Some(match story {
                Ok((state, lines)) => {
                    detail.state = state;
                    lines
                }
                Err(e) => vec![escaped(id.as_str()), format!("cannot be read: {}", escaped(&e.to_string()))],
            });
        }
    }

    fn begin_act(&mut self, deed: Deed, reason: String) {
        let operator = self.operator.clone();
        self.model.said = None;
        self.act = Some(tokio::spawn(async move { deed.perform(&operator, &reason).await }));
    }

    fn take_act(&mut self, performed: Option<Performed>) {
        self.act = None;
        self.model.doing = None;
        match performed {
            Some(Ok((text, is_bad))) => self.model.say(&text, is_bad),
            Some(Err(e)) => self.model.say(&e.to_string(), true),
            None => self.model.say("it broke; see the audit for what was done", true),
        }
        self.look_now();
        if let Overlay::Detail(detail) = &self.model.overlay {
            self.begin_story(detail.id.clone());
        }
    }
}

fn slow() -> crate::error::Error {
    crate::error::Error::Store {
        kind: crate::error::StoreKind::Unknown,
        attempted: "look at the wheel".to_owned(),
        message: format!("not answered within {}", crate::clock::show_duration(LOOK_TIMEOUT)),
    }
}

/// What a task has come to, `None` where it broke; waits for ever where there is no task.
fn finished<T: Send + 'static>(
    task: &mut Option<JoinHandle<T>>,
) -> Pin<Box<dyn Future<Output = Option<T>> + '_>> {
    match task {
        Some(task) => Box::pin(async move { task.await.ok() }),
        None => Box::pin(std::future::pending()),
    }
}
