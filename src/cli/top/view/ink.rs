//! The few styles of the screen. Without colour (`NO_COLOR`) bold, dim and reversed carry the same meaning.

use ratatui::style::{Color, Modifier, Style};

/// What is written with.
#[derive(Debug, Clone, Copy)]
pub struct Ink {
    /// Whether colours may be used.
    pub colour: bool,
}

impl Ink {
    /// Ordinary text.
    pub fn plain(self) -> Style {
        Style::new()
    }

    /// Text that stands out.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Text that stands back.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Where the cursor is.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// As it should be.
    pub fn good(self) -> Style {
        self.in_colour(Style::new(), Color::Green)
    }

    /// Worth a look.
    pub fn odd(self) -> Style {
        self.in_colour(self.strong(), Color::Yellow)
    }

    /// Broken.
    pub fn bad(self) -> Style {
        self.in_colour(self.strong().add_modifier(Modifier::REVERSED), Color::Red)
    }

    fn in_colour(self, style: Style, colour: Color) -> Style {
        if self.colour { style.fg(colour) } else { style }
    }
}
