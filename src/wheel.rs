//! The wheel: deadlines in Redis, and the verbs that move them. The only part that names redis and deadpool-redis.

pub mod answer;
mod settings;

pub use settings::{RedisSettings, WheelSettings};
