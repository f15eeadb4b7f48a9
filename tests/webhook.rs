//! The webhook hook against endpoints that answer well, badly, late, and not at all.

mod call;
mod connection;
mod fleet;
mod receiver;
mod target;
mod tls;
mod verdict;
mod zombie;

use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Generation, Id, Payload, Reminders, Stage};
use duewheel::hook::webhook::{WebhookHook, WebhookSecret, WebhookSettings};
use duewheel::hook::{Hook, Verdict};
use duewheel::lease::{Fence, Lease, RedisClock};
use duewheel::shard::WheelName;

use crate::rig::stub::{Answer, Stub};

/// `whsec_` and the base64 of 32 bytes.
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=";

fn secret(text: &str) -> WebhookSecret {
    WebhookSecret::new(text.to_owned().into())
}

/// The endpoint `url` as the tests call it: on this machine, and without patience.
fn settings(url: &str) -> WebhookSettings {
    let mut settings = WebhookSettings::new(url);
    settings.secrets = vec![secret(SECRET)];
    settings.allow_private = true;
    settings
}

fn hook(stub: &Stub) -> WebhookHook {
    WebhookHook::new(&settings(&stub.url("/close"))).unwrap()
}

fn wheel() -> WheelName {
    WheelName::new("orders").unwrap()
}

fn lease(id: &str) -> Lease {
    Lease {
        id: Id::new(id).unwrap(),
        due_at: Moment::from_millis(1_790_000_000_000).unwrap(),
        generation: Generation(1_780_000_000_000_001),
        stage: Stage::CLOSE,
        cause: Cause::Due,
        attempt: 1,
        fence: Fence(1_790_000_030_000_000),
        payload: Payload::from_json(r#"{"amount":9007199254740993}"#).unwrap(),
        traceparent: None,
        was_held: false,
        was_put_off: false,
        note: None,
        reminders: Reminders::default(),
        trusted_until: Instant::now() + Duration::from_secs(30),
        redis_clock: RedisClock { us: 1_790_000_000_500_000, at: Instant::now() },
    }
}

/// The verdict on one order.
async fn judge(hook: &WebhookHook, lease: &Lease) -> Verdict {
    let mut verdicts = hook.judge(&wheel(), std::slice::from_ref(lease)).await;
    assert_eq!(verdicts.len(), 1, "one verdict for one lease");
    verdicts.remove(0)
}

/// The verdict when the endpoint answers so.
async fn verdict_on(answer: Answer) -> Verdict {
    let stub = Stub::start().await;
    stub.otherwise(answer);
    let verdict = judge(&hook(&stub), &lease("o1")).await;
    assert_eq!(stub.calls().len(), 1, "one call for one order");
    verdict
}

/// What an unsuccessful verdict says.
fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Unavailable { reason, .. }
        | Verdict::Failed { reason }
        | Verdict::Rejected { reason }
        | Verdict::Gone { reason } => reason,
        other => panic!("{other:?} has no reason"),
    }
}
