//! The webhook hook: one signed HTTP call for each order, and the shop judges.

mod settings;

pub use settings::{WebhookFormat, WebhookSecret, WebhookSettings};
