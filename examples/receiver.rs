//! A receiver as a shop would write it: verifies the signature, closes by a conditional update, and answers a verdict. The orders are
//! in memory here; in a shop the same three steps run in its database.
//!
//! ```text
//! cargo run --example receiver -- 127.0.0.1:8088 whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=
//! curl -X PUT    127.0.0.1:8088/orders/A17             # an order, unpaid
//! curl -X PATCH  127.0.0.1:8088/orders/A17             # the payment
//! curl           127.0.0.1:8088/orders                 # all of them
//! ```
//!
//! The HTTP is the least that works, so that the example needs no framework: a real receiver has one.

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

/// What the shop knows of an order.
struct Order {
    status: &'static str,
    /// The highest fence that was seen: a call with a lower one comes from a worker whose lease is over.
    fence: u64,
    /// Which call closed it; a repeat carries the same.
    closed_by: Option<String>,
}

type Orders = Arc<Mutex<HashMap<String, Order>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8088".to_owned());
    let secret = args.next().ok_or("usage: receiver ADDRESS whsec_SECRET")?;
    let listener = TcpListener::bind(&address)?;
    println!("listening on {}", listener.local_addr()?);
    run(&listener, &secret)
}

/// Serves connections until one cannot be accepted.
pub fn run(listener: &TcpListener, secret: &str) -> Result<(), Box<dyn Error>> {
    let webhook = Arc::new(Webhook::new(secret)?);
    let orders = Orders::default();
    for stream in listener.incoming() {
        let (stream, webhook, orders) = (stream?, webhook.clone(), orders.clone());
        std::thread::spawn(move || {
            // A connection that breaks concerns nobody else.
            let _ = serve(stream, &webhook, &orders);
        });
    }
    Ok(())
}

/// The hook itself: (status, answer).
fn close(webhook: &Webhook, orders: &Orders, headers: &HeaderMap, body: &[u8]) -> (u16, Value) {
    // 1. Nobody but duewheel may close orders. This checks the age of the call as well.
    if webhook.verify(body, headers).is_err() {
        return (401, json!({"error": "signature"}));
    }
    let call: Value = serde_json::from_slice(body).unwrap_or_default();
    let data = &call["data"];
    let (Some(id), Some(fence)) = (data["id"].as_str(), data["fence"].as_u64()) else {
        return (400, json!({"verdict": "rejected", "reason": "no id or fence"}));
    };
    let webhook_id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    if call["type"] != "order.close_due" {
        // A reminder: tell the buyer here.
        return (200, json!({"verdict": "closed"}));
    }

    let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(order) = orders.get_mut(id) else {
        return (404, json!({"verdict": "gone", "reason": "no such order"}));
    };
    // 2. A worker that was frozen beyond its lease is late: another one has the order now and gets the answer.
    if fence < order.fence {
        return (409, json!({"verdict": "failed", "reason": "a later claim was seen"}));
    }
    order.fence = fence;
    // 3. The conditional update, and what the order is when it did not apply.
    match order.status {
        "unpaid" => {
            order.status = "closed";
            order.closed_by = Some(webhook_id.to_owned());
            println!("closed {id}, attempt {}", data["attempt"]);
            (200, json!({"verdict": "closed"}))
        }
        // The answer to the first call was lost; this is the same answer.
        "closed" if order.closed_by.as_deref() == Some(webhook_id) => (200, json!({"verdict": "closed"})),
        "closed" => (200, json!({"verdict": "already_closed"})),
        status => (200, json!({"verdict": "skipped", "state": status})),
    }
}

/// What the shop itself does with orders, so that there is something to close.
fn shop(orders: &Orders, method: &str, path: &str) -> (u16, Value) {
    let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    let id = path.strip_prefix("/orders/").unwrap_or_default();
    match (method, id) {
        ("PUT", id) if !id.is_empty() => {
            orders.insert(id.to_owned(), Order { status: "unpaid", fence: 0, closed_by: None });
            (201, json!({"status": "unpaid"}))
        }
        ("PATCH", id) => match orders.get_mut(id) {
            Some(order) if order.status == "unpaid" => {
                order.status = "paid";
                (200, json!({"status": "paid"}))
            }
            Some(order) => (409, json!({"status": order.status})),
            None => (404, json!({})),
        },
        ("GET", _) => (200, orders.iter().map(|(id, order)| (id.clone(), json!(order.status))).collect()),
        _ => (405, json!({})),
    }
}

fn serve(stream: TcpStream, webhook: &Webhook, orders: &Orders) -> Result<(), Box<dyn Error>> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = HeaderMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value.trim())?);
        }
        let length = headers.get("content-length").map(|value| value.to_str()).transpose()?;
        let length: u64 = length.unwrap_or("0").parse()?;
        // A call of duewheel is below 70 KiB.
        let mut body = Vec::new();
        reader.by_ref().take(length.min(1 << 20)).read_to_end(&mut body)?;
        let (status, answer) = match (method.as_str(), path.as_str()) {
            ("POST", "/hooks/close") => close(webhook, orders, &headers, &body),
            _ => shop(orders, &method, &path),
        };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        reader.get_mut().write_all((head + &answer).as_bytes())?;
    }
}
