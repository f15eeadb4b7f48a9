//! The command line: every verb, every refusal with its code, and nothing stored by a call that was refused.

mod audit;
mod bulk;
mod help;
mod inputs;
#[cfg(feature = "sql")]
mod modes;
mod streams;
mod supervisor;
mod verbs;
mod worker;
