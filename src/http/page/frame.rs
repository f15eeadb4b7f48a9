//! What stands around every screen: navigation, who is here, what the last act came to.

use super::asset;
use super::screen::SCREENS;

/// The frame of one page. Templates extend `frame.html` and call it `frame`.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    pub title: String,
    /// What every path begins with: nothing, or `/duewheel`.
    pub base: String,
    /// `light`, `dark`, or nothing for what the browser prefers.
    pub theme: &'static str,
    /// The wheel that is shown; empty where none is.
    pub wheel: String,
    pub wheels: Vec<String>,
    /// Below `/wheels/{wheel}`, as the table of screens has it.
    pub screen: &'static str,
    /// The name of the token; `None` where nobody needs one.
    pub who: Option<String>,
    /// Whether somebody may look at all: the navigation is for them.
    pub may_read: bool,
    /// Whether buttons are shown. The server refuses all the same.
    pub may_operate: bool,
    pub flash: Option<Flash>,
    /// The page's own path and query, to come back to.
    pub here: String,
    pub request_id: String,
}

/// What an act came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flash {
    pub good: bool,
    pub text: String,
}

/// One screen of the navigation.
pub(super) struct Tab {
    pub label: &'static str,
    pub href: String,
    pub current: bool,
}

impl Frame {
    /// A path of this wheel: `frame.at("/dead")`.
    pub fn at(&self, path: &str) -> String {
        format!("{}/wheels/{}{path}", self.base, self.wheel)
    }

    pub fn css(&self) -> String {
        asset::path(&self.base, "page.css")
    }

    pub fn script(&self) -> String {
        asset::path(&self.base, "page.js")
    }

    pub fn tabs(&self) -> Vec<Tab> {
        if self.wheel.is_empty() || !self.may_read {
            return Vec::new();
        }
        let tab = |(label, path): (&'static str, &'static str)| Tab {
            label,
            href: self.at(path),
            current: path == self.screen,
        };
        SCREENS
            .iter()
            .filter(|screen| !screen.tab.is_empty())
            .map(|screen| (screen.tab, screen.path))
            .map(tab)
            .collect()
    }

    /// The same screen of another wheel.
    pub fn of_wheel(&self, wheel: &str) -> String {
        let in_navigation = SCREENS.iter().any(|screen| !screen.tab.is_empty() && screen.path == self.screen);
        format!("{}/wheels/{wheel}{}", self.base, if in_navigation { self.screen } else { "" })
    }

    /// What page.js does at a key, for those who look it up: keys that do the same, and what.
    pub fn keys(&self) -> [(&'static [&'static str], &'static str); 7] {
        [
            (&["/"], "the search"),
            (&["1", "9", "0"], "the first to the ninth screen, and the tenth"),
            (&["j", "k"], "the next row, the one before; Enter opens it"),
            (&["x"], "picks the row, or leaves it out"),
            (&["n", "f"], "the next page, the first page"),
            (&["?"], "these keys"),
            (&["Esc"], "out of a field"),
        ]
    }

    /// What the next press of the theme's button chooses.
    pub fn next_theme(&self) -> &'static str {
        match self.theme {
            "light" => "dark",
            "dark" => "auto",
            _ => "light",
        }
    }

    pub fn theme_name(&self) -> &'static str {
        if self.theme.is_empty() { "auto" } else { self.theme }
    }

    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
