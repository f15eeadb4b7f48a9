//! The HTTP API: what services in other languages stand on.

mod events;
mod hangup;
mod limits;
mod manual;
mod openapi;
mod refusals;
mod serve;
mod verbs;
