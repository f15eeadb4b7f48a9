//! `duewheel probe`: asks a process of this program how it is, where there is no shell and nothing else that could ask: in its image.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::error::escaped;

/// Far above what a probe answers; keeps a mistaken address from filling the memory.
const MAX_BYTES: u64 = 256 * 1024;

/// Arguments of `probe`.
#[derive(Debug, Args)]
#[command(
    about = "Asks a running worker or server whether it is ready",
    long_about = "Asks a running worker or server, at the address where it answers probes, whether it is ready (/readyz), or with --live \
                  whether its loops go on (/livez), and says what it is not content with. It ends with 0 where all is well, with 3 \
                  where something is not, and with 69 where nobody answers: the health check of a container, whose image has no shell.",
    after_help = "Examples:\n  duewheel probe                             at metrics.listen of the configuration\n  duewheel probe --live --at \
                  127.0.0.1:9464\n  duewheel probe --json | jq '.checks[] | select(.problem)'"
)]
pub struct Probe {
    /// Where it answers: an IP address and a port [default: metrics.listen, on this host]
    #[arg(long, value_name = "ADDR")]
    at: Option<SocketAddr>,
    /// Whether its loops go on, whatever Redis and the hook do
    #[arg(long)]
    live: bool,
}

/// Asks.
pub async fn run(args: &Probe, context: &Context, output: &mut Output) -> Outcome {
    let Some(at) = args.at.or(context.config.metrics.listen) else {
        return Err(Failure::Usage(
            "metrics.listen: is not set; say with --at where the process answers".to_owned(),
        ));
    };
    let (at, limit) = (reachable(at), context.config.redis.response_timeout);
    let probe = if args.live { "livez" } else { "readyz" };
    let unavailable = |reason: String| Failure::Stopped(Exit::Unavailable, format!("ask {at}: {reason}"));
    let answer = tokio::time::timeout(limit, ask(at, probe)).await;
    let answer = answer.map_err(|_| unavailable(format!("no answer within {} ms", limit.as_millis())))?;
    let text = answer.map_err(|e| unavailable(e.to_string()))?;
    let Some((status, body)) = parts(&text) else {
        return Err(unavailable("answers no probes".to_owned()));
    };
    let checks: Vec<_> = body.lines().filter_map(check).collect();
    let passed = status == 200;
    if output.is_json() {
        let checks: Vec<_> =
            checks.iter().map(|(name, problem)| json!({"name": name, "problem": problem})).collect();
        output.object(&json!({"probe": probe, "at": at.to_string(), "passed": passed, "checks": checks}))?;
    } else if passed {
        output.say(&format!("{probe} passed"), &())?;
    } else {
        let failed = checks.iter().filter_map(|(name, problem)| Some((name, problem.as_ref()?)));
        for (name, problem) in failed {
            output.line(&format!("{}: {}", escaped(name), escaped(problem)))?;
        }
        output.line(&format!("{probe} failed"))?;
    }
    Ok(if passed { Exit::Done } else { Exit::Findings })
}

/// Who listens on every address of this host is reached on one of its own.
fn reachable(mut at: SocketAddr) -> SocketAddr {
    if at.ip().is_unspecified() {
        at.set_ip(match at {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    at
}

async fn ask(at: SocketAddr, probe: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    let request = format!("GET /{probe}?verbose HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The status and the body of an answer to a probe; `None` where it is the answer of something else.
fn parts(answer: &str) -> Option<(u16, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    matches!(status, 200 | 503).then_some((status, body))
}

/// One line of the answer: a check's name, and what is wrong if anything is.
fn check(line: &str) -> Option<(&str, Option<&str>)> {
    let (name, said) = line.strip_prefix("[+] ").or_else(|| line.strip_prefix("[-] "))?.split_once(": ")?;
    Some((name, line.starts_with("[-]").then_some(said)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_that_of_a_stranger_is_not() {
        let (status, body) =
            parts("HTTP/1.1 503 Service Unavailable\r\nx: y\r\n\r\n[-] a b: c: d\n").unwrap();
        assert_eq!((status, check(body.trim())), (503, Some(("a b", Some("c: d")))));
        assert_eq!(check("[+] poller 3: ok"), Some(("poller 3", None)));
        assert_eq!(check("ok"), None);
        assert_eq!((parts("HTTP/1.1 404 Not Found\r\n\r\n"), parts("-ERR unknown\r\n")), (None, None));
    }

    #[test]
    fn who_listens_everywhere_is_asked_on_this_host() {
        for (listens, asked) in
            [("0.0.0.0:9", "127.0.0.1:9"), ("[::]:9", "[::1]:9"), ("10.0.0.7:9", "10.0.0.7:9")]
        {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), asked);
        }
    }
}
