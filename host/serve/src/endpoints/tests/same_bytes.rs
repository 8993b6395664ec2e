//! The same plugin, seed and actions give the same bytes and rewards through both endpoints as in this process.

use std::sync::Arc;

use gymkhana_driver::{BoundPlugin, Episode, EpisodeSeeds, EpisodeSetup, NoHooks, Reply, Tool, ToolSet};
use gymkhana_record::{NamedValue, Seed, TaskRef, Turn, Value, text_of};
use gymkhana_sandbox::{Grants, Plugin, Sandbox, SandboxConfig};
use gymkhana_tests::component;
use serde_json::json;

use super::server::Server;

const MOVES: [&str; 6] = ["right", "nonsense", "down", "right", "down", "left"];

/// Text and reward after the start and after each move; the host's own code is only the driver.
async fn in_process(seed: u64, index: u64) -> Vec<(String, f64)> {
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(8), ..SandboxConfig::default() }).unwrap();
    let load = |name: &str| Plugin::load(&sandbox, &component(name), &Grants::default()).unwrap();
    let options = vec![NamedValue { name: "slippery".to_owned(), value: Value::Flag(true) }];
    let mut tools = ToolSet::default();
    tools.add(Tool::describe(BoundPlugin { plugin: load("calculator"), options: vec![] }).await.unwrap()).unwrap();
    let setup = EpisodeSetup {
        environment: &BoundPlugin { plugin: load("frozen-lake"), options },
        tools: &Arc::new(tools),
        task: TaskRef { split: "train".to_owned(), index },
        seeds: EpisodeSeeds { environment: Seed(seed).child("environment"), tools: Seed(seed).child("tool") },
        overrides: Arc::default(),
        max_bytes: 1 << 20,
    };
    let opened = Episode::open(setup, 1, &[], &mut NoHooks).await;
    let mut episode = opened.unwrap_or_else(|failed| panic!("{}", failed.failure));
    let mut seen = vec![(shown(&episode.data.turns), 0.0)];
    for text in MOVES {
        let (turns, steps) = (episode.data.turns.len(), episode.data.rewards[0].rewards.len());
        let reply = Reply { thoughts: None, message: text.to_owned(), calls: vec![] };
        let ending = episode.take_turn(&mut NoHooks, reply, u32::MAX).await;
        let reward = episode.data.rewards[0].rewards[steps..].iter().sum();
        seen.push((shown(&episode.data.turns[turns..]), reward));
        if ending.is_some() {
            break;
        }
    }
    seen
}

fn shown(turns: &[Turn]) -> String {
    let texts = turns.iter().filter_map(|turn| match turn {
        Turn::Observation { content, .. } => Some(text_of(content)),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

async fn over_openenv(server: &Server, seed: u64, index: u64) -> Vec<(String, f64)> {
    let mut socket = server.connect("/ws").await;
    let first = socket.send("reset", json!({ "seed": seed, "split": "train", "index": index })).await;
    let mut seen = vec![(first["data"]["observation"]["text"].as_str().unwrap().to_owned(), 0.0)];
    for text in MOVES {
        let step = socket.send("step", json!({ "text": text })).await["data"].take();
        let shown = step["observation"]["text"].as_str().unwrap_or_else(|| panic!("{step}")).to_owned();
        seen.push((shown, step["reward"].as_f64().unwrap()));
        if step["done"] == true {
            break;
        }
    }
    seen
}

async fn over_ors(server: &Server, seed: u64, index: u64) -> Vec<(String, f64)> {
    let id = format!("session-{seed}");
    let body = json!({ "task_spec": { "split": "train", "index": index, "seed": seed } });
    let (status, answer) = server.post("/create", &id, &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let text_of = |blocks: &serde_json::Value| {
        let texts = blocks.as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>().join("\n")
    };
    let (_, prompt) = server.request("GET", "/frozen-lake/prompt", &id, "").await;
    let mut seen = vec![(text_of(&serde_json::from_str(&prompt).unwrap()), 0.0)];
    for text in MOVES {
        let result = server.called(&id, &json!({ "name": "say", "input": { "text": text } })).await;
        let output = &result["output"];
        seen.push((text_of(&output["blocks"]), output["reward"].as_f64().unwrap()));
        if output["finished"] == true {
            break;
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_endpoints_change_no_byte() {
    let server = Server::start().await;
    for (seed, index) in [(7, 3), (8, 3), (9, 11)] {
        let expected = in_process(seed, index).await;
        assert_eq!(over_openenv(&server, seed, index).await, expected, "seed {seed}");
        assert_eq!(over_ors(&server, seed, index).await, expected, "seed {seed}");
    }
    server.stop().await;
}
