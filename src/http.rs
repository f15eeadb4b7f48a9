//! What is answered over HTTP.

pub mod health;
