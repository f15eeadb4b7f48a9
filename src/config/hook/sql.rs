//! The keys of `kind = "sql"`.

use std::time::Duration;

use crate::config::section::Section;
use crate::config::shown_url;
use crate::error::Error;
use crate::hook::sql::{KeyType, Route, SqlSettings, TimeType};

pub(super) fn resolve(section: &mut Section<'_>) -> SqlSettings {
    let limit = Duration::from_millis(10)..=Duration::from_secs(3600);
    let settings = SqlSettings {
        urls: section.secrets("url", shown_url),
        route: section.parsed("route", Route::parse),
        table: section.text("table").unwrap_or_default(),
        key: section.text("key").unwrap_or_default(),
        key_type: section.parsed("key_type", KeyType::parse),
        guard: section.text("guard").unwrap_or_default(),
        close_at: section.text("close_at"),
        close_at_type: section.parsed("close_at_type", TimeType::parse),
        overdue: section.text("overdue"),
        set: section.text("set").unwrap_or_default(),
        state: section.text("state"),
        time_zone: section.text("time_zone"),
        then: section.texts("then"),
        ensure: section.texts("ensure"),
        remind: section.texts("remind"),
        audit: section.text("audit"),
        call: section.text("call"),
        session: section.texts("session"),
        max_batch: section.whole("max_batch", 1..=2000) as usize,
        pool_size: section.whole("pool_size", 1..=1000),
        connect_timeout: section.duration("connect_timeout", limit.clone()),
        statement_timeout: section.duration("statement_timeout", limit.clone()),
        lock_timeout: section.duration("lock_timeout", limit.clone()),
        timeout: section.duration("timeout", limit),
        prepared: section.flag("prepared"),
        trace_comment: section.flag("trace_comment"),
        ..SqlSettings::default()
    };
    // What the declaration itself lacks or gets wrong is the hook's own knowledge; each of its problems begins with the key.
    if let Err(Error::Config(problems)) = settings.validate() {
        section.foreign_problems(&problems);
    }
    settings
}
