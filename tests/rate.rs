//! The rate of a wheel: in no window of w seconds more than rate x w + burst are claimed, by Redis's clock, over all shards and workers,
//! whatever dies, lags or jumps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duewheel::error::StoreKind;
use duewheel::hook::Verdict;
use duewheel::shard::Shard;
use duewheel::wheel::{Ask, Rate, Wheel, Wish};
use duewheel::worker::WorkerSettings;

use crate::rig::crew::{Mate, closed, enqueue_range, quick};
use crate::rig::hook::Recorder;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, ask, wheel, with_test_clock};
use crate::rig::{PATIENCE, eventually};

const GOOD: Duration = Duration::from_millis(250);

fn rate(per_second: f64, burst: u32) -> Rate {
    Rate::new(per_second, burst).unwrap()
}

/// Whether in every window, from any claim to any later one, no more were claimed than the rate allows.
#[track_caller]
fn assert_within(rate: Rate, claims: &[(u64, usize)], story: &str) {
    let mut claims = claims.to_vec();
    claims.sort_unstable();
    for (from, (first, _)) in claims.iter().enumerate() {
        let mut taken = 0;
        for (at, count) in &claims[from..] {
            taken += count;
            let window = (at - first) as f64 / 1e6;
            let allowed = rate.per_second() * window + f64::from(rate.burst());
            assert!(taken as f64 <= allowed + 1e-6, "{taken} in {window} s, {allowed} are allowed\n{story}");
        }
    }
}

/// A worker of the model: what it holds, and what it may do with it.
#[derive(Debug, Clone)]
struct Hand {
    name: String,
    free: usize,
    good_until_us: u64,
}

/// One random history; jumps back, or losses of the bucket and jumps ahead. A clock that steps back shows the same time twice, so there
/// the windows are of true time. Answers how many were claimed.
async fn history(server: &RedisServer, seed: u64, steps_back: bool) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let wheel = wheel(server, 2).await;
    with_test_clock(server, &wheel);
    let bucket = format!("dw1:{{{}}}:rate", wheel.name());
    let test_clock = || server.command::<u64>(&["HSET", &bucket, "clock", "test"]);
    test_clock();
    let rate = rate([2.5, 40.0, 500.0][random.usize(..3)], [1, 7, 60][random.usize(..3)]);
    let mut now = 1_772_337_600_000_000_u64;
    let mut stepped_back = 0;
    enqueue_range(&wheel.at_fixed_time(now), 0..1500, |_| after(0)).await;
    let mut hands: Vec<Hand> = Vec::new();
    let mut zombies: Vec<Hand> = Vec::new();
    let (mut claims, mut story, mut nonce) = (Vec::new(), Vec::new(), seed * 100_000);
    for step in 0..250 {
        while hands.len() < 3 {
            hands.push(Hand { name: format!("w{seed}-{step}-{}", hands.len()), free: 0, good_until_us: 0 });
        }
        let hand = random.usize(..3);
        match random.u32(..100) {
            0..30 => {
                now += random.u64(..40_000);
                continue;
            }
            30..33 => now += random.u64(..1_500_000),
            33 if steps_back => {
                let step = random.u64(..3_000_000);
                (now, stepped_back) = (now - step, stepped_back + step);
            }
            34 if !steps_back && random.u32(..8) == 0 => now += 3_600_000_000,
            35 if !steps_back => {
                server.command::<u64>(&["DEL", &bucket]);
                test_clock();
                story.push(format!("{now} bucket lost"));
            }
            36..40 => {
                // It dies, or is only stopped and goes on later with what it believes to hold.
                zombies.push(hands.swap_remove(hand));
                story.push(format!("{now} {} stops", zombies.last().unwrap().name));
            }
            40..45 if !zombies.is_empty() => {
                let at = random.usize(..zombies.len());
                let zombie = zombies.swap_remove(at);
                let claimed = claim(&wheel, now, &mut nonce, &zombie, zombie.free, &mut story).await;
                claims.push((now + stepped_back, claimed));
            }
            45..70 => {
                let hand = &mut hands[hand];
                let back = if hand.free > 0 { random.usize(..=hand.free) } else { 0 };
                let wish = Wish { held: hand.free - back, back, want: random.usize(..80) };
                let grant = wheel.at_fixed_time(now).grant(rate, &hand.name, wish, GOOD).await.unwrap();
                story.push(format!("{now} {} {wish:?} {grant:?}", hand.name));
                hand.free = grant.kept;
                // A lost answer grants in vain.
                if random.u32(..10) > 0 {
                    hand.free += grant.granted;
                    hand.good_until_us = grant.good_until_us;
                }
            }
            _ => {
                let hand = &mut hands[hand];
                let count = random.usize(..=hand.free);
                let claimed = claim(&wheel, now, &mut nonce, hand, count, &mut story).await;
                claims.push((now + stepped_back, claimed));
                // What was refused is thrown away here, which the bucket takes as used.
                hand.free -= count;
            }
        }
    }
    assert_within(rate, &claims, &format!("seed {seed}, {rate:?}\n{}", story.join("\n")));
    claims.iter().map(|(_, count)| count).sum()
}

async fn claim(
    wheel: &Wheel,
    now: u64,
    nonce: &mut u64,
    hand: &Hand,
    count: usize,
    story: &mut Vec<String>,
) -> usize {
    if count == 0 {
        return 0;
    }
    *nonce += 1;
    let shard = Shard(u16::try_from(*nonce % 2).unwrap());
    let asked = Ask {
        limit: count,
        good_until_us: hand.good_until_us,
        lease: Duration::from_secs(86_000),
        worker: "model",
        ..ask(*nonce)
    };
    let claimed = wheel.at_fixed_time(now).claim(shard, &asked).await.unwrap();
    story.push(format!(
        "{now} {} claims {} of {count}, good until {}",
        hand.name,
        claimed.leases.len(),
        hand.good_until_us
    ));
    claimed.leases.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_history_of_deaths_lost_answers_and_jumps_exceeds_the_rate() {
    let long = std::env::var_os("DUEWHEEL_TEST_LONG").is_some();
    let mut claimed = 0;
    for seed in 0..if long { 400 } else { 40 } {
        claimed += history(RedisServer::shared(), seed, seed % 2 == 0).await;
    }
    assert!(claimed > 300, "{claimed} claims prove little");
}

#[tokio::test]
async fn tokens_end_go_back_and_are_lost_as_the_script_says() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    server.command::<u64>(&["HSET", &format!("dw1:{{{}}}:rate", wheel.name()), "clock", "test"]);
    let start = 1_772_337_600_000_000_u64;
    let rate = rate(100.0, 20);
    let grant = async |at_ms: u64, worker: &str, held, back, want| {
        let at = wheel.at_fixed_time(start + at_ms * 1000);
        at.grant(rate, worker, Wish { held, back, want }, GOOD).await.unwrap()
    };
    let first = grant(0, "a", 0, 0, 5).await;
    assert_eq!((first.granted, first.wait), (0, GOOD + Duration::from_millis(20)), "a new bucket is empty");
    assert_eq!(grant(10_000, "a", 0, 0, 100).await.granted, 20, "a full one holds the burst");
    assert_eq!(grant(10_100, "b", 0, 0, 5).await.granted, 0, "what is in hand takes its room");
    assert_eq!(grant(10_100, "a", 10, 10, 0).await.granted, 0);
    assert_eq!(
        grant(10_100, "b", 0, 0, 100).await.granted,
        5,
        "what was given back is shared by those who hold"
    );
    // `a` used 6 of its 10 and holds 4; nothing filled while the burst was in hand.
    assert_eq!(grant(10_110, "a", 4, 0, 100).await.granted, 3);
    // Both die: the 12 that they held are lost 250 ms after they were last heard of, and took their room until then.
    assert_eq!(grant(10_361, "c", 0, 0, 100).await.granted, 8);
    // A step back fills nothing, and takes nothing.
    assert_eq!(grant(9_361, "c", 0, 8, 100).await.granted, 8);
    server.command::<u64>(&["HDEL", &format!("dw1:{{{}}}:rate", wheel.name()), "w:c"]);
    assert_eq!(grant(9_361, "c", 8, 0, 0).await.kept, 0, "what the bucket does not know is nobody's");
    assert_eq!(grant(13_000, "c", 0, 0, 100).await.granted, 20);
    // A step of hours makes a new bucket.
    let back = wheel.at_fixed_time(start - 7_200_000_000);
    let wish = Wish { held: 20, back: 0, want: 100 };
    assert_eq!(back.grant(rate, "c", wish, GOOD).await.unwrap().granted, 0);
    assert_eq!(wheel.bucket().await.unwrap().unwrap().held, 0);
}

#[tokio::test]
async fn a_grant_of_nonsense_is_refused_and_writes_nothing() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let key = format!("dw1:{{{}}}:rate", wheel.name());
    let good = ["", "1000", "5", "w", "0", "0", "1", "250000"];
    let source = duewheel::wheel::script::GRANT.source();
    let call = |keys: &[&str], args: &[&str]| {
        let count = keys.len().to_string();
        let command = [&["EVAL", source, &count][..], keys, args].concat();
        server.try_command::<Vec<u64>>(&command)
    };
    for (at, bad) in [
        (0, "1"),
        (1, "0"),
        (1, "-1"),
        (1, "1e3"),
        (2, "0"),
        (3, ""),
        (4, "x"),
        (5, "1.5"),
        (6, "nan"),
        (7, "0"),
        (7, "1000001"),
    ] {
        let mut args = good;
        args[at] = bad;
        let refused = call(&[&key], &args).expect_err(&format!("argument {at} as {bad}"));
        assert!(refused.to_string().contains("BADCALL"), "{refused}");
    }
    assert!(call(&[&key], &good[..7]).is_err() && call(&[&key], &[&good[..], &["1"]].concat()).is_err());
    assert!(
        call(&[], &good).is_err()
            && call(&[&key, &key], &good).is_err()
            && call(&["dw1:{x}:state"], &good).is_err()
    );
    assert_eq!(server.command::<u64>(&["EXISTS", &key]), 0);
    server.command::<()>(&["SET", &key, "not a hash"]);
    assert!(call(&[&key], &good).is_err());
    let error = wheel.grant(rate(1.0, 1), "w", Wish::default(), GOOD).await.unwrap_err();
    assert_eq!(error.store_kind(), Some(StoreKind::Corrupt), "{error}");
    server.command::<u64>(&["DEL", &key]);
    assert_eq!(call(&[&key], &good).unwrap()[1], 0);
}

fn limited(rate: Rate) -> WorkerSettings {
    WorkerSettings { rate: Some(rate), ..quick() }
}

/// The claims that the hooks saw, by Redis's clock.
fn claims(hooks: &[Arc<Recorder>]) -> Vec<(u64, usize)> {
    let mut at: BTreeMap<u64, usize> = BTreeMap::new();
    for hook in hooks {
        hook.calls.lock().unwrap().iter().for_each(|call| *at.entry(call.claimed_us).or_default() += 1);
    }
    at.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_workers_on_sixteen_shards_close_a_backlog_at_the_rate() {
    let long = std::env::var_os("DUEWHEEL_TEST_LONG").is_some();
    // The long form is the promise; a short one cannot make up for a stall of a loaded machine longer than the burst lasts.
    let (due, slack) = if long { (20_000, 1.05) } else { (2500, 1.4) };
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 16).await;
    let rate = rate(500.0, 125);
    enqueue_range(&wheel, 0..due, |_| after(0)).await;
    let hooks: [Arc<Recorder>; 3] = std::array::from_fn(|_| Arc::new(Recorder::closing()));
    let began = Instant::now();
    let mates = hooks.clone().map(|hook| Mate::start(&wheel, hook, limited(rate)));
    eventually(PATIENCE, || async { (hooks.iter().map(|h| h.count()).sum::<usize>() > 200).then_some(()) })
        .await;
    let stats = wheel.stats().await.unwrap();
    assert!(stats.due > due / 2 && stats.leased < 200, "what must wait is due and in sight: {stats:?}");
    let listed = wheel
        .list(
            duewheel::deadline::State::Scheduled,
            duewheel::clock::Moment::EPOCH,
            duewheel::clock::Moment::MAX,
            None,
            100,
        )
        .await
        .unwrap();
    assert_eq!(listed.rows.len(), 100);
    // No shard waits for the others: halfway every one has had its part.
    let per_shard = async || {
        let mut counts = [0_u64; 16];
        for (shard, count) in (0..).zip(&mut counts) {
            *count =
                wheel.shard_stats(Shard(shard)).await.unwrap().totals.get("closed").copied().unwrap_or(0);
        }
        counts
    };
    let halfway = eventually(Duration::from_secs(60), || async {
        let counts = per_shard().await;
        (counts.iter().sum::<u64>() > due / 2).then_some(counts)
    })
    .await;
    let fair = due / 2 / 16;
    assert!(halfway.iter().all(|count| *count > fair / 4), "{halfway:?}");
    eventually(Duration::from_secs(120), || async {
        (wheel.stats().await.ok()?.totals.get("closed") == Some(&due)).then_some(())
    })
    .await;
    let took = began.elapsed().as_secs_f64();
    let claims = claims(&hooks);
    assert_eq!(claims.iter().map(|(_, count)| count).sum::<usize>(), usize::try_from(due).unwrap());
    assert_within(rate, &claims, "the fleet");
    let ideal = due as f64 / 500.0;
    println!(
        "{due} due at 500/s, burst 125: {took:.2} s, ideal {ideal:.2} s, {} claims, halfway {halfway:?}",
        claims.len()
    );
    assert!(took < ideal * slack, "{took} s, ideally {ideal} s");
    for mate in mates {
        assert!(mate.drain().await.clean);
    }
    assert_eq!(wheel.bucket().await.unwrap().unwrap().held, 0, "what was not used went back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_with_tokens_in_hand_and_a_lost_bucket_never_let_the_total_exceed() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 4).await;
    let rate = rate(200.0, 40);
    enqueue_range(&wheel, 0..3000, |_| after(0)).await;
    let mut hooks = vec![Arc::new(Recorder::closing())];
    let survivor = Mate::start(&wheel, hooks[0].clone(), limited(rate));
    for round in 0..8 {
        let hook = Arc::new(Recorder::closing());
        hooks.push(hook.clone());
        let mate = Mate::start(&wheel, hook.clone(), limited(rate));
        eventually(PATIENCE, || async { (hook.count() > 0).then_some(()) }).await;
        mate.kill();
        if round == 4 {
            server.command::<u64>(&["DEL", &format!("dw1:{{{}}}:rate", wheel.name())]);
        }
    }
    let before = hooks[0].count();
    eventually(PATIENCE, || async { (hooks[0].count() > before + 50).then_some(()) }).await;
    survivor.drain().await;
    assert_within(rate, &claims(&hooks), "killed workers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_rate_is_kept_to_the_single_order_and_an_empty_wheel_costs_little() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 16).await;
    let rate = rate(20.0, 1);
    enqueue_range(&wheel, 0..10, |_| after(0)).await;
    let hook = Arc::new(Recorder::new(|_| Verdict::Closed));
    let mates = [(); 2].map(|()| Mate::start(&wheel, hook.clone(), limited(rate)));
    closed(&wheel, 10).await;
    assert_within(rate, &claims(std::slice::from_ref(&hook)), "slow");
    let calls = || server.info("total_commands_processed").parse::<u64>().unwrap();
    let before = calls();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let spent = calls() - before;
    println!("two idle workers, 16 shards, 20/s: {spent} commands a second, scripts' own included");
    for mate in mates {
        mate.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wheel_without_a_limit_asks_redis_for_nothing_more() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 4).await;
    enqueue_range(&wheel, 0..2000, |_| after(0)).await;
    let mate = Mate::start(&wheel, Arc::new(Recorder::closing()), quick());
    closed(&wheel, 2000).await;
    let tally = mate.drain().await.tally;
    let stats: String = server.command(&["INFO", "commandstats"]);
    let calls = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    // What a limit asks is a script that reads its own record whole; a wheel without one runs claims, settles and the self-test's.
    assert!(calls("hgetall") <= 1, "{stats}");
    println!("2000 closed without limits: {} scripts, {} of them claims", calls("evalsha"), tally.claims);
    for key in ["rate", "breaker"] {
        assert_eq!(server.command::<u64>(&["EXISTS", &format!("dw1:{{{}}}:{key}", wheel.name())]), 0);
    }
}
