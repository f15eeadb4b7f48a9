//! `duewheel token`: tokens for the HTTP API.

use clap::{Args, Subcommand};
use serde_json::json;

use super::arguments;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use crate::clock::Moment;
use crate::http::{Scope, Token};

/// Arguments of `token`.
#[derive(Debug, Args)]
#[command(
    about = "Makes tokens for the HTTP API",
    long_about = "Makes tokens for the HTTP API. The token is shown once and kept nowhere; its line, which holds its hash, goes into \
                  the file of `http.tokens_file`. To replace a token, add the line of a new one beside it, send SIGHUP, give the new \
                  token to its user, then take the old line away.",
    after_help = "Examples:\n  duewheel token new order-service --scope read --scope enqueue\n  duewheel token new alice --scope operate \
                  --scope read --until 2027-01-01T00:00:00Z\n  duewheel token new ci --scope read --json | jq -r .line >> /etc/duewheel/tokens"
)]
pub struct TokenCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Makes one: prints the token, and its line for the configuration
    New {
        /// Whose it is: 1 to 48 letters, digits, -, _ or .
        #[arg(value_name = "NAME")]
        name: String,
        /// What it may be used for; may be given again: read (look), enqueue (place, move, hold, cancel), operate (close by hand, pause,
        /// resume, revive and drop the dead)
        #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = scope)]
        scopes: Vec<Scope>,
        /// When it ends [default: never]
        #[arg(long, value_name = "RFC3339", value_parser = arguments::moment)]
        until: Option<Moment>,
    },
}

fn scope(word: &str) -> Result<Scope, String> {
    Scope::parse(word).map_err(|e| e.reason)
}

/// Makes one.
pub fn run(args: &TokenCommand, output: &mut Output) -> Outcome {
    let Verb::New { name, scopes, until } = &args.verb;
    let (secret, token) = Token::generate(name, scopes, *until)?;
    let line = token.to_string();
    if output.is_json() {
        output.object(&json!({"name": name, "token": secret, "line": line}))?;
    } else {
        output.line(&format!("token  {secret}"))?;
        output.line(&format!("line   {line}"))?;
        output.note("the token is not kept: give it to its user now; the line goes into http.tokens_file");
    }
    Ok(Exit::Done)
}
