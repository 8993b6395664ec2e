//! Load: many idle sessions in memory, and actions per second through VerlTool's endpoint. Run by hand:
//! `cargo test --release -p gymkhana-serve --test served -- --ignored --nocapture load`.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

use std::time::{Duration, Instant};

use gymkhana_http::Client;
use gymkhana_record::Seed;
use gymkhana_serve::endpoints::Protocol;
use gymkhana_serve::session::{NextEpisode, SessionTarget, TurnRequest};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::serve;

/// Sessions of the first figure.
const SESSIONS: u64 = 100_000;
/// Memory that they may take, in MiB.
const MAX_MIB: f64 = 2048.0;
/// Trajectories of the second figure, each with one action at a time.
const TRAJECTORIES: usize = 64;
/// Time of the measurement.
const TIME: Duration = Duration::from_secs(5);

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1024.0
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time in hundredths of a second.
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn load_of_idle_sessions() {
    let served = serve(&["frozen-lake"], "[sessions]\nlive = 32\n").await;
    let before = resident_mib();
    let since = Instant::now();
    let mut sessions = Vec::new();
    for seed in 0..SESSIONS {
        let what = SessionTarget::Environment { name: None, options: vec![] };
        let session = served.sessions.open(&Client::anyone(), Protocol::OpenEnv, what).await.unwrap();
        session
            .reset(NextEpisode { task: Some(seed % 1000), seed: Some(Seed(seed)), ..NextEpisode::default() })
            .await
            .unwrap();
        session.act(TurnRequest::say("nonsense")).await.unwrap();
        sessions.push(session);
    }
    let (took, memory) = (since.elapsed().as_secs_f64(), resident_mib() - before);
    let counts = served.sessions.counts();
    println!("{} idle sessions, {} live: {memory:.0} MiB, opened in {took:.1} s", counts.open, counts.live);
    let since = Instant::now();
    for session in sessions.iter().step_by(100) {
        session.act(TurnRequest::say("nonsense")).await.unwrap();
    }
    println!(
        "a turn of a parked session takes {:.0} µs",
        since.elapsed().as_secs_f64() * 1e6 / (SESSIONS / 100) as f64
    );
    assert!(memory <= MAX_MIB, "{memory} MiB");
    served.stop().await;
}

/// Sends an action of each of these trajectories again and again in one request on one connection; returns the number of
/// actions.
async fn client(address: std::net::SocketAddr, trajectories: std::ops::Range<usize>) -> u64 {
    let actions = trajectories.len();
    let body = batch(trajectories);
    let head = format!("POST /get_observation HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    let request = [head.as_bytes(), body.as_bytes()].concat();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut buffer, mut count) = (vec![0; 16 << 10], 0);
    let since = Instant::now();
    while since.elapsed() < TIME {
        stream.write_all(&request).await.unwrap();
        let mut read = 0;
        loop {
            read += stream.read(&mut buffer[read..]).await.unwrap();
            if buffer[..read].ends_with(b"}") {
                break;
            }
        }
        count += actions as u64;
    }
    let answers = vec!["\"42\""; actions].join(",");
    assert!(String::from_utf8_lossy(&buffer).contains(&format!("\"observations\":[{answers}]")));
    count
}

/// A request with an action of each trajectory.
fn batch(trajectories: std::ops::Range<usize>) -> String {
    let ids: Vec<String> = trajectories.map(|number| format!("t{number}")).collect();
    let each = |value: Json| vec![value; ids.len()];
    json!({
        "actions": each(json!("<calculator>12+30</calculator>")), "finish": each(json!(false)),
        "is_last_step": each(json!(false)), "extra_fields": each(json!({})), "trajectory_ids": ids,
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn load_of_actions() {
    for each in [1, 8, 32] {
        // With fewer places than trajectories, each action would park one and bring another back.
        let served = serve(&["calculator"], "[sandbox]\ninstances = 160\n").await;
        let (since, before) = (Instant::now(), cpu_seconds());
        let first = (0..TRAJECTORIES).step_by(each);
        let clients = first.map(|first| tokio::spawn(client(served.address, first..first + each)));
        let mut actions = 0;
        for client in clients.collect::<Vec<_>>() {
            actions += client.await.unwrap();
        }
        let rate = actions as f64 / since.elapsed().as_secs_f64();
        let cpu = (cpu_seconds() - before) * 1e6 / actions as f64;
        println!(
            "{rate:.0} actions per second of {TRAJECTORIES} trajectories with {each} in a request; {cpu:.1} µs of CPU \
             per action, client included"
        );
        served.stop().await;
    }
}
