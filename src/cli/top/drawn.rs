//! The screen as it is drawn, in every state and size, and what keys make of it: without a terminal and without Redis.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::deed::Deed;
use super::keys::{Ask, press};
use super::look::{Listing, Seen};
use super::model::{Model, Overlay, Tab, Wanted};
use super::view;
use crate::clock::Moment;
use crate::config::Shown;
use crate::deadline::{Cause, Generation, Id, Note, Payload, Stage, State};
use crate::operator::To;
use crate::slot::Slot;
use crate::wheel::answer::{Entry, Row, Stats};
use crate::wheel::{Held, Hour, Minute, Trip, WorkerRecord};

const NOW: u64 = 1_772_337_600_000;

fn moment(ms: u64) -> Moment {
    Moment::from_millis(ms).unwrap()
}

fn worker(host: &str, pid: u32) -> WorkerRecord {
    serde_json::from_value(serde_json::json!({
        "token": format!("{host}{pid}"), "host": host, "pid": pid, "version": "0.1.0", "started_ms": NOW - 5_000_000,
        "in_flight": 7, "draining": false,
    }))
    .unwrap()
}

fn seen() -> Seen {
    let minutes = (0..60_u64).map(|n| {
        let mut minute = Minute::at(moment(NOW - (59 - n) * 60_000));
        (minute.closed, minute.skipped) = (40 + 13 * (n % 7), n % 3);
        minute.lateness.put(1 + n as usize % 4, 50);
        minute
    });
    Seen {
        now: moment(NOW),
        stats: Stats {
            now_ms: NOW,
            scheduled: 1_234_567,
            due: 3,
            oldest_due_ms: 900,
            leased: 12,
            dead: 2,
            shards: 16,
            ..Stats::default()
        },
        workers: vec![worker("shop-a", 71), worker("shop-b", 72)],
        lost: 0,
        held: Held::default(),
        bucket: None,
        hour: Hour { now_ms: NOW, minutes: minutes.collect() },
        heat: (0..16_u64)
            .map(|shard| (0..60).map(|minute| (shard * 7 + minute) % 11 * (minute % 5)).collect())
            .collect(),
        redis: None,
        swept_at: Some(moment(NOW - 61_000)),
        settings: [
            ("hook.kind", "\"webhook\""),
            ("hook.url", "\"https://shop.example/close\""),
            ("circuit.window", "\"10s\""),
        ]
        .map(|(key, value)| Shown {
            key: key.to_owned(),
            value: value.to_owned(),
            source: "default".to_owned(),
        })
        .into(),
    }
}

fn row(id: &str, state: State, reason: Option<&str>) -> Row {
    let entry = Entry {
        id: Id::new(id).unwrap(),
        generation: Generation(1),
        due_at: moment(NOW - 60_000),
        next_at: moment(NOW - 60_000),
        slot: Slot { level: 0, number: 1 },
        stage: Stage::CLOSE,
        hold_count: 0,
        hold_total: Duration::ZERO,
        cause: Cause::Due,
        attempts: 3,
        losses: 0,
        cancelled: false,
        note: None,
        reminders: crate::deadline::Reminders::default(),
        payload: Payload::default(),
        traceparent: None,
    };
    Row::Live { state, at: moment(NOW - 60_000), entry: Box::new(entry), reason: reason.map(str::to_owned) }
}

fn dead(count: usize, more: bool) -> Listing {
    let rows =
        (0..count).map(|n| row(&format!("order-{n}"), State::Dead, Some("timeout after 5s"))).collect();
    Listing { wanted: Wanted::Scheduled, filter: String::new(), rows, read: count, more }
}

/// The screen with everything read, at that tab.
fn model(tab: Tab) -> Model {
    let mut model = Model::new("orders", false, false);
    model.tab = tab;
    model.take(seen(), Some((Tab::Dead, dead(2, false))));
    let rows = vec![
        row("8213", State::Scheduled, None),
        row("\u{202e}evil", State::Scheduled, None),
        Row::Foreign {
            id: "\\xff".to_owned(),
            state: State::Scheduled,
            reason: "no id or no header of ours".to_owned(),
        },
    ];
    let listing = Listing { wanted: Wanted::Scheduled, filter: String::new(), rows, read: 3, more: true };
    model.take(seen(), Some((Tab::Deadlines, listing)));
    model
}

fn drawn(model: &mut Model, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, model)).unwrap();
    terminal
}

fn text(model: &mut Model, width: u16, height: u16) -> String {
    drawn(model, width, height).backend().to_string()
}

fn keys(model: &mut Model, keys: &str) -> Option<Ask> {
    keys.chars().fold(None, |_, key| {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            key => KeyCode::Char(key),
        };
        press(model, KeyEvent::new(code, KeyModifiers::NONE))
    })
}

#[test]
fn each_tab_as_it_is_drawn() {
    for tab in Tab::ALL {
        insta::assert_snapshot!(tab.title().to_lowercase(), text(&mut model(tab), 80, 24));
        insta::assert_snapshot!(
            format!("{}_narrow", tab.title().to_lowercase()),
            text(&mut model(tab), 40, 16)
        );
    }
}

#[test]
fn trouble_stands_above_everything() {
    let mut model = model(Tab::Overview);
    let mut seen = seen();
    seen.held.trip = Some(Trip {
        at_us: (NOW - 9000) * 1000,
        by: "a".to_owned(),
        why: "400 closes in a minute".to_owned(),
    });
    seen.held.paused = Some(Note { actor: "bob\u{202e}".to_owned(), reason: "look\u{1b}[2J".to_owned() });
    seen.stats.oldest_due_ms = 75_000;
    seen.workers[0].held_back = vec!["localhost:5432/shop is away".to_owned()];
    model.take(seen, None);
    model.trouble = Some((
        "Redis is away: stats on wheel orders: connection refused".to_owned(),
        Duration::from_secs(12),
    ));
    let shown = text(&mut model, 80, 24);
    assert!(!shown.contains('\u{202e}') && !shown.contains('\u{1b}'), "{shown}");
    insta::assert_snapshot!("alarms", shown);
}

#[test]
fn what_holds_the_hook_back_is_said_with_how_many_workers_and_until_when() {
    let mut model = model(Tab::Hooks);
    let mut seen = seen();
    for worker in &mut seen.workers {
        worker.held_back = vec!["shop.example:443 is not asked: status 503\u{1b}[2J".to_owned()];
        worker.pauses = [("shop.example:443".to_owned(), NOW + 90_000), ("over".to_owned(), NOW - 1)].into();
    }
    seen.held.paused = Some(Note { actor: "bob\u{202e}".to_owned(), reason: "look".to_owned() });
    model.take(seen, None);
    let shown = text(&mut model, 100, 24);
    assert!(!shown.contains('\u{202e}') && !shown.contains('\u{1b}') && !shown.contains("over "), "{shown}");
    insta::assert_snapshot!("hooks_held_back", shown);
    // Lines that do not fit are scrolled to.
    assert!(!text(&mut model, 100, 10).contains("circuit.window"));
    keys(&mut model, "G");
    assert!(text(&mut model, 100, 10).contains("circuit.window"));
}

#[test]
fn what_lies_over_a_tab_as_it_is_drawn() {
    let mut model = model(Tab::Dead);
    keys(&mut model, "?");
    insta::assert_snapshot!("help", text(&mut model, 80, 24));
    keys(&mut model, "x\n");
    let Overlay::Detail(detail) = &mut model.overlay else { panic!("no story") };
    detail.lines = Some(vec!["order-0  dead on shard 3".to_owned(), "why: it waits for a person".to_owned()]);
    insta::assert_snapshot!("detail", text(&mut model, 80, 24));
    keys(&mut model, "r");
    insta::assert_snapshot!("dialog", text(&mut model, 80, 24));
}

#[test]
fn no_size_is_too_small_to_be_drawn() {
    for (width, height) in
        [(0, 0), (1, 1), (3, 2), (19, 4), (20, 5), (21, 6), (30, 7), (200, 3), (4, 60), (300, 100)]
    {
        for tab in Tab::ALL {
            for over in ["", "?", "p", "\n", "/"] {
                let mut model = model(tab);
                model.listings[1] = Some(dead(50, false));
                keys(&mut model, over);
                drawn(&mut model, width, height);
            }
        }
    }
    let mut empty = Model::new("orders", true, true);
    for (width, height) in [(80, 24), (20, 5)] {
        drawn(&mut empty, width, height);
    }
}

#[test]
fn without_colour_nothing_is_coloured_and_alarms_still_stand_out() {
    use ratatui::style::{Color, Modifier};
    let mut plain = model(Tab::Overview);
    plain.trouble = Some(("away".to_owned(), Duration::ZERO));
    let terminal = drawn(&mut plain, 80, 24);
    let cells = terminal.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(cells[80 + 2].modifier.contains(Modifier::REVERSED));
    plain.colour = true;
    let coloured = drawn(&mut plain, 80, 24);
    assert!(coloured.backend().buffer().content().iter().any(|cell| cell.fg == Color::Red));
}

#[test]
fn an_act_is_asked_for_only_after_its_confirmation() {
    let mut model = model(Tab::Dead);
    assert_eq!(keys(&mut model, "r"), None);
    assert_eq!(
        keys(&mut model, "why\n"),
        Some(Ask::Do(Deed::Revive(vec![Id::new("order-0").unwrap()]), "why".to_owned()))
    );
    // While it is being done nothing else is begun.
    assert_eq!(keys(&mut model, "r\n"), Some(Ask::Story(Id::new("order-0").unwrap())));
    keys(&mut model, "\u{1b}");
    model.doing = None;

    // Closing needs a reason; one that is only blank is none.
    assert_eq!(keys(&mut model, "f\n  \n"), None);
    assert!(
        matches!(keys(&mut model, "fraud\n"), Some(Ask::Do(Deed::Close(_), reason)) if reason == "fraud")
    );
    model.doing = None;

    // A letter of the reason is no key, and Escape leaves it undone.
    assert_eq!(keys(&mut model, "cqq\u{1b}"), None);
    assert!(matches!(model.overlay, Overlay::None));
}

#[test]
fn when_and_for_how_long_is_asked_before_why() {
    let mut model = model(Tab::Deadlines);
    let order = Id::new("8213").unwrap();
    assert_eq!(keys(&mut model, "t"), None);
    insta::assert_snapshot!("dialog_to", text(&mut model, 80, 24));
    // What is not understood is said, and can be mended.
    assert_eq!(keys(&mut model, "\u{8}\u{8}\u{8}\u{8}soon\n"), None);
    assert!(text(&mut model, 80, 24).contains("expected +15m"));
    assert_eq!(keys(&mut model, "\u{8}\u{8}\u{8}\u{8}2026-03-01 12:00\n"), None);
    assert!(text(&mut model, 80, 24).contains("Reschedule 8213, to 2026-03-01T12:00:00.000Z"));
    let to = To::At(moment(NOW + 8 * 3_600_000));
    assert_eq!(
        keys(&mut model, "opens later\n"),
        Some(Ask::Do(Deed::Reschedule(order.clone(), to), "opens later".to_owned()))
    );
    model.doing = None;
    assert_eq!(keys(&mut model, "o\n"), None);
    let hold = Deed::Hold(order.clone(), Duration::from_secs(900));
    assert_eq!(keys(&mut model, "\n"), Some(Ask::Do(hold, String::new())));
    model.doing = None;

    // What is held is released by the same key.
    let mut held = row("8213", State::Scheduled, None);
    if let Row::Live { entry, .. } = &mut held {
        (entry.hold_count, entry.next_at) = (1, moment(NOW + 900_000));
    }
    let rows = Listing { rows: vec![held], ..model.listings[0].clone().unwrap() };
    model.take(seen(), Some((Tab::Deadlines, rows)));
    assert_eq!(keys(&mut model, "o\n"), Some(Ask::Do(Deed::Release(order), String::new())));
    model.doing = None;
    // The dead are revived, not moved.
    model.tab = Tab::Dead;
    for act in ["t", "o"] {
        assert_eq!(keys(&mut model, act), None);
        assert!(matches!(model.overlay, Overlay::None) && model.said.take().unwrap().is_bad);
    }
}

#[test]
fn a_drained_worker_is_let_go_on_by_the_key_that_drained_it() {
    let mut model = model(Tab::Workers);
    assert_eq!(keys(&mut model, "d\u{1b}"), None);
    let mut seen = seen();
    seen.workers[0].drained = Some(Note { actor: "bob".to_owned(), reason: "a new version".to_owned() });
    model.take(seen, None);
    let deed = Deed::Undrain("shop-a71".to_owned(), "shop-a:71".to_owned());
    assert_eq!(keys(&mut model, "d\n"), Some(Ask::Do(deed, String::new())));
}

#[test]
fn keys_that_do_not_fit_are_scrolled_to() {
    let mut model = model(Tab::Overview);
    keys(&mut model, "?");
    assert!(!text(&mut model, 40, 10).contains("Ctrl-C"));
    for _ in 0..30 {
        press(&mut model, KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
    }
    let last = text(&mut model, 40, 10);
    assert!(last.contains("Ctrl-C") && last.contains("these keys"), "{last}");
    keys(&mut model, "x");
    assert!(matches!(model.overlay, Overlay::None));
}

#[test]
fn many_are_acted_on_only_when_their_number_is_typed() {
    let mut model = model(Tab::Dead);
    model.take(seen(), Some((Tab::Dead, dead(10, false))));
    assert_eq!(keys(&mut model, "R\n1\n"), None);
    assert!(matches!(keys(&mut model, "0\n"), Some(Ask::Do(Deed::Revive(ids), _)) if ids.len() == 10));
    model.doing = None;
    // Nine are few enough for Enter alone.
    model.take(seen(), Some((Tab::Dead, dead(9, false))));
    assert!(matches!(keys(&mut model, "C\n"), Some(Ask::Do(Deed::Drop(ids), _)) if ids.len() == 9));
    model.doing = None;
    // Where not all were read, nobody knows how many it would be.
    model.take(seen(), Some((Tab::Dead, dead(9, true))));
    assert_eq!(keys(&mut model, "R\n"), Some(Ask::Story(Id::new("order-0").unwrap())));
    assert!(model.said.unwrap().is_bad);
}

#[test]
fn read_only_refuses_every_act_in_every_place() {
    for tab in Tab::ALL {
        for act in ["r", "R", "c", "C", "f", "t", "o", "p", "d"] {
            for place in ["", "\n"] {
                let mut model = model(tab);
                model.read_only = true;
                keys(&mut model, place);
                keys(&mut model, act);
                assert!(!matches!(model.overlay, Overlay::Dialog(_)), "{tab:?} {act}");
                assert!(model.said.is_some_and(|said| said.text.starts_with("read-only")), "{tab:?} {act}");
            }
        }
    }
}

#[test]
fn a_filter_chooses_when_it_is_entered_and_is_cleared_by_escape() {
    let mut model = model(Tab::Dead);
    assert_eq!(keys(&mut model, "/gone"), None);
    assert!(model.listing().is_some(), "nothing is chosen while it is typed");
    assert_eq!(keys(&mut model, "\n"), Some(Ask::Look));
    assert!(model.listing().is_none());
    // A look that was under way before is not what is wanted now.
    model.take(seen(), Some((Tab::Dead, dead(2, false))));
    assert!(model.listing().is_none());
    let chosen = Listing { filter: "gone".to_owned(), ..dead(1, false) };
    model.take(seen(), Some((Tab::Dead, chosen)));
    assert!(model.listing().is_some());
    assert_eq!(keys(&mut model, "/x\u{1b}"), None);
    assert_eq!(model.filter, "gone");
    assert_eq!(keys(&mut model, "\u{1b}"), Some(Ask::Look));
    assert_eq!(model.filter, "");
}

#[test]
fn the_cursor_stays_on_its_order_when_rows_come_and_go() {
    let mut model = model(Tab::Dead);
    model.take(seen(), Some((Tab::Dead, dead(5, false))));
    keys(&mut model, "jj");
    assert_eq!(model.target().unwrap().0.as_str(), "order-2");
    let mut fewer = dead(5, false);
    fewer.rows.remove(0);
    model.take(seen(), Some((Tab::Dead, fewer)));
    assert_eq!((model.target().unwrap().0.as_str(), model.line()), ("order-2", 1));
    model.take(seen(), Some((Tab::Dead, dead(1, false))));
    assert_eq!(model.target().unwrap().0.as_str(), "order-0");
    model.take(seen(), Some((Tab::Dead, dead(0, false))));
    assert_eq!(model.target(), None);
}

#[test]
fn escape_and_a_key_right_behind_it_are_two_keys_and_never_a_letter_of_a_reason() {
    let mut model = model(Tab::Overview);
    keys(&mut model, "p");
    assert!(matches!(model.overlay, Overlay::Dialog(_)));
    // A terminal that reads both at once tells of one key with Alt.
    press(&mut model, KeyEvent::new(KeyCode::Char('4'), KeyModifiers::ALT));
    assert!(matches!(model.overlay, Overlay::None));
    assert_eq!(model.tab, Tab::Dead);
}
