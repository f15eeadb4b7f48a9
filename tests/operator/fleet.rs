//! Workers drained from outside, and jobs that people ask for.

use std::sync::Arc;

use duewheel::operator::{Door, Operator, Person};
use duewheel::wheel::Wheel;
use serde_json::json;

use crate::rig::api::ApiServer;
use crate::rig::cli::Cli;
use crate::rig::crew::{Mate, enqueue_range, quick};
use crate::rig::hook::Recorder;
use crate::rig::redis::RedisServer;
use crate::rig::wheel::{after, wheel};
use crate::rig::{PATIENCE, eventually};

async fn worker(wheel: &Wheel) -> duewheel::wheel::WorkerRecord {
    eventually(PATIENCE, || async { wheel.presence().await.ok()?.workers.pop() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_worker_claims_nothing_stays_in_the_roster_and_goes_on_when_it_is_let() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let mate = Mate::start(&wheel, Arc::new(Recorder::closing()), quick());
    let operator = Operator::new(wheel.clone(), Person::new("anna", Door::Page).unwrap());
    let token = worker(&wheel).await.token;
    assert!(!operator.drain("nobody", "why").await.unwrap());
    assert!(operator.drain(&token, "").await.is_err(), "a drain needs a reason");
    assert!(operator.drain(&token, "disk").await.unwrap());
    let seen =
        eventually(PATIENCE, || async { Some(worker(&wheel).await).filter(|seen| seen.draining) }).await;
    assert_eq!(seen.drained.unwrap().actor, "anna");
    assert!(seen.held_back[0].contains("anna drained this worker: disk"), "{:?}", seen.held_back);
    // A look that was under way when it heard of it has ended by now.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    enqueue_range(&wheel, 0..20, |_| after(0)).await;
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    assert_eq!(wheel.stats().await.unwrap().due, 20, "it claims nothing");
    assert!(operator.resume_worker(&token, "").await.unwrap());
    eventually(PATIENCE, || async { (wheel.stats().await.ok()?.due == 0).then_some(()) }).await;
    eventually(PATIENCE, || async { (!worker(&wheel).await.draining).then_some(()) }).await;
    assert!(mate.drain().await.clean);
    let key = format!("dw1:{{{}}}:drains", wheel.name());
    assert_eq!(RedisServer::shared().command::<u64>(&["EXISTS", &key]), 0, "nothing is left behind");
}

#[tokio::test]
async fn workers_are_listed_drained_and_let_go_on_over_http() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let mate = Mate::start(&api.wheel, Arc::new(Recorder::closing()), quick());
    let token = worker(&api.wheel).await.token;
    let listed = client.bare("GET", &api.path("/workers")).await.is(200).value();
    assert_eq!(listed["workers"][0]["token"], token);
    let drain = api.path(&format!("/workers/{token}/drain"));
    client.json("POST", &drain, "{}").await.problem(422, "invalid");
    let told = client.json("POST", &drain, r#"{"reason":"disk"}"#).await.is(202).value();
    assert_eq!((&told["outcome"], &told["worker"]), (&json!("draining"), &json!(token)));
    eventually(PATIENCE, || async { worker(&api.wheel).await.draining.then_some(()) }).await;
    let resume = api.path(&format!("/workers/{token}/resume"));
    assert_eq!(client.send("POST", &resume, &[], "").await.is(202).value()["outcome"], "resuming");
    eventually(PATIENCE, || async { (!worker(&api.wheel).await.draining).then_some(()) }).await;
    client.json("POST", &api.path("/workers/nobody/drain"), r#"{"reason":"x"}"#).await.problem(404, "absent");
    assert!(mate.drain().await.clean);
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_drains_a_worker_by_the_beginning_of_its_token() {
    let cli = Cli::new(RedisServer::shared());
    let settings = duewheel::wheel::WheelSettings::new(duewheel::shard::WheelName::new(&cli.wheel).unwrap());
    let wheel = crate::rig::wheel::wheel_of(RedisServer::shared(), settings).await;
    let mate = Mate::start(&wheel, Arc::new(Recorder::closing()), quick());
    let token = worker(&wheel).await.token;
    assert!(cli.run(&["drain", "--list"]).ends(0).stdout.contains(&token));
    assert_eq!(cli.run(&["drain", &token[..8], "--json"]).ends(0).object()["worker"], token);
    eventually(PATIENCE, || async { worker(&wheel).await.draining.then_some(()) }).await;
    cli.run(&["drain", &token, "--end"]).ends(0);
    cli.run(&["drain", "nobody"]).ends(5);
    cli.run(&["drain"]).ends(2);
    assert!(mate.drain().await.clean);
}

#[tokio::test]
async fn jobs_are_listed_with_their_runs_and_asked_for_over_http() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let duewheel::wheel::Taken::Mine(job) =
        api.wheel.take_job("sweep", "a", std::time::Duration::from_secs(5), None).await.unwrap()
    else {
        panic!("nobody else has it")
    };
    job.finish(r#"{"seen":7}"#, &[]).await.unwrap();
    let path = api.path("/jobs");
    let of = |listed: &serde_json::Value, name: &str| {
        listed["jobs"].as_array().unwrap().iter().find(|job| job["job"] == name).unwrap().clone()
    };
    let sweep = of(&client.bare("GET", &path).await.is(200).value(), "sweep");
    assert_eq!(
        (&sweep["runs"][0]["seen"], &sweep["asked_at"], &sweep["runner"]),
        (&json!(7), &json!(null), &json!(null))
    );
    let run = |job: &str| format!("{path}/{job}/run");
    client.send("POST", &run("sweep"), &[], "").await.is(202);
    client.json("POST", &run("sweep"), r#"{"dry_run":true,"actor":"anna"}"#).await.is(202);
    client.json("POST", &run("feed"), r#"{"dry_run":true}"#).await.problem(422, "invalid");
    client.send("POST", &run("dance"), &[], "").await.problem(404, "absent");
    let listed = client.bare("GET", &path).await.is(200).value();
    assert!(
        of(&listed, "sweep")["asked_at"].is_string() && of(&listed, "sweep_preview")["asked_at"].is_string()
    );
    api.stop().await;
}
