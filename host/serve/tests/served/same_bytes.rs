//! The same plugin, seed and actions give the same bytes and rewards through an endpoint as in this process.

use std::sync::Arc;

use gymkhana_driver::{BoundPlugin, Episode, EpisodeSeeds, EpisodeSetup, NoHooks, Reply, Tool, ToolSet};
use gymkhana_record::{SeatRewards, Seed, TaskRef, Turn, WrittenCall, text_of};
use gymkhana_sandbox::{Grants, Plugin, Sandbox, SandboxConfig};
use gymkhana_store::RunReader;
use gymkhana_tests::component;
use serde_json::json;

use crate::common::{serve_in, verltool_body};

/// Turns of an agent: messages, and a call in VerlTool's form.
pub const ACTIONS: [&str; 7] =
    ["right", "nonsense", "<calculator>(12+30)*45</calculator>", "down", "right", "down", "left"];

/// The expression of an action that is a call.
pub fn expression(action: &str) -> Option<&str> {
    action.strip_prefix("<calculator>").and_then(|rest| rest.strip_suffix("</calculator>"))
}

/// What the agent saw, in its order.
pub fn shown(turns: &[Turn]) -> Vec<String> {
    let texts = turns.iter().filter_map(|turn| match turn {
        Turn::Observation { content, .. } | Turn::Answer { content, .. } => Some(text_of(content)),
        _ => None,
    });
    texts.collect()
}

/// Plays the actions in this process by the driver alone, with the seeds of a run.
pub async fn in_process(seed: u64, index: u64) -> (Vec<Turn>, Vec<SeatRewards>) {
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(8), ..SandboxConfig::default() }).unwrap();
    let load = |name: &str| Plugin::load(&sandbox, &component(name), &Grants::default()).unwrap();
    let slippery =
        gymkhana_record::NamedValue { name: "slippery".to_owned(), value: gymkhana_record::Value::Flag(true) };
    let environment = BoundPlugin { plugin: load("frozen-lake"), options: vec![slippery] };
    let mut tools = ToolSet::default();
    tools.add(Tool::describe(BoundPlugin { plugin: load("calculator"), options: vec![] }).await.unwrap()).unwrap();
    let seed = Seed(seed);
    let setup = EpisodeSetup {
        environment: &environment,
        tools: &Arc::new(tools),
        task: TaskRef { split: "train".to_owned(), index },
        seeds: EpisodeSeeds { environment: seed.child("environment"), tools: seed.child("tool") },
        overrides: Arc::default(),
        max_bytes: 1 << 20,
    };
    let opened = Episode::open(setup, 1, &[], &mut NoHooks).await;
    let mut episode = opened.unwrap_or_else(|failed| panic!("{}", failed.failure));
    for action in ACTIONS {
        let reply = match expression(action) {
            Some(expression) => Reply {
                thoughts: None,
                message: String::new(),
                calls: vec![WrittenCall::Sound {
                    name: "calculate".to_owned(),
                    arguments: json!({ "expression": expression }).to_string(),
                }],
            },
            None => Reply { thoughts: None, message: action.to_owned(), calls: vec![] },
        };
        if episode.take_turn(&mut NoHooks, reply, u32::MAX).await.is_some() {
            break;
        }
    }
    (episode.data.turns, episode.data.rewards)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_changes_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        "[verltool]\nenvironment = \"frozen-lake\"\n[environments.frozen-lake]\noptions = { slippery = true }\n";
    let served = serve_in(Some(&folder), &["frozen-lake", "calculator"], config).await;
    let mut expected = Vec::new();
    for (seed, index) in [(7, 3), (8, 3), (9, 11)] {
        let (turns, rewards) = in_process(seed, index).await;
        let (trajectory, extra) = (format!("t{seed}"), json!({ "seed": seed, "index": index }));
        let (mut seen, mut earned) = (Vec::new(), 0.0);
        for action in ACTIONS {
            let answer = served.observe(&trajectory, action, extra.clone()).await;
            seen.push(answer["observations"][0]["obs"].as_str().unwrap().to_owned());
            earned += answer["observations"][0]["reward"].as_f64().unwrap();
            if answer["dones"][0] == true {
                break;
            }
        }
        assert_eq!(seen, shown(&turns)[1..], "seed {seed}");
        assert_eq!(earned, rewards[0].rewards.iter().sum::<f64>(), "seed {seed}");
        expected.push((turns, rewards));
        let end = verltool_body(&trajectory, "", json!({})).replace("\"finish\":[false]", "\"finish\":[true]");
        let (_, ended) = crate::common::post(served.address, "/get_observation", &end).await;
        assert_eq!(ended["dones"][0], true);
    }
    served.stop().await;
    let run = RunReader::open(&folder.path().join("frozen-lake")).unwrap();
    let records: Vec<_> = run.episodes().unwrap().read_all().map(Result::unwrap).collect();
    let recorded: Vec<_> = records.into_iter().map(|record| (record.turns, record.environment_rewards)).collect();
    assert_eq!(recorded, expected);
}
