//! An episode with a server as a tool, and its replay without the server.

use std::collections::BTreeSet;
use std::sync::Arc;

use gymkhana_driver::{
    BoundPlugin, CallOverrides, Episode, EpisodeSeeds, EpisodeSetup, NoHooks, Reply, Tool, ToolSet, unsandboxed,
};
use gymkhana_mcp::{McpServer, ToolList, plugin, tools_of};
use gymkhana_record::{
    Boundary, CallCost, Ending, EpisodeId, EpisodeRecord, FailureKind, NamedValue, Phase, Seed, TaskRef, Turn,
    WrittenCall,
};
use gymkhana_registry::{ContractStamp, Digest, Kind, Manifest, PluginName};
use gymkhana_sandbox::unsandboxed::{PluginResult, Unsandboxed, contract};
use gymkhana_sandbox::{OptionalInterface, Plugin};

use crate::{server, server_of};

/// An environment that shows a text and then waits for tools.
struct Waiting;

impl Unsandboxed for Waiting {
    fn offers(&self, _: OptionalInterface) -> bool {
        false
    }

    fn describe_environment(&self) -> PluginResult<contract::EnvironmentInfo> {
        let rewards = contract::Range { low: 0.0, high: 1.0 };
        let seats = vec!["agent".to_owned()];
        Ok(contract::EnvironmentInfo { summary: String::new(), seats, options: vec![], reward_range: rewards })
    }

    fn reset(&self, _: &TaskRef, _: &[NamedValue], _: Seed) -> PluginResult<contract::ResetResult> {
        let seen = contract::Observation { seat: 0, content: vec![contract::Part::Text("Go.".to_owned())] };
        Ok(contract::ResetResult {
            episode: 0,
            observations: vec![seen],
            functions: vec![],
            tool_setups: vec![],
            next_seat: 0,
        })
    }

    fn close(&self, _: u32) -> PluginResult<()> {
        Ok(())
    }

    fn forget(&self, _: u32) {}
}

fn environment() -> BoundPlugin {
    let manifest = Manifest {
        name: PluginName::new("local", "waiting").unwrap(),
        version: "0.0.0".parse().unwrap(),
        kinds: BTreeSet::from([Kind::Environment]),
        contract: ContractStamp::of_this_host(),
        license: String::new(),
        description: String::new(),
        capabilities: BTreeSet::new(),
        optional: BTreeSet::new(),
        deterministic: false,
        thoughts: false,
        reward_range: None,
        quick: false,
    };
    BoundPlugin { plugin: Plugin::unsandboxed(manifest, Digest::of(b"waiting"), Arc::new(Waiting)), options: vec![] }
}

/// An episode with the server as its tool. Without a server, the record's list is all there is.
async fn begin(list: &ToolList, server: Option<McpServer>, overrides: CallOverrides) -> Episode {
    begin_with(&[(list.clone(), server)], overrides).await
}

/// An episode with these servers as its tools.
async fn begin_with(servers: &[(ToolList, Option<McpServer>)], overrides: CallOverrides) -> Episode {
    let mut tools = ToolSet::default();
    for (list, server) in servers {
        let plugin = plugin(list.clone(), server.clone()).unwrap();
        assert!(unsandboxed(std::iter::once(&plugin)).is_empty(), "a replay does not need the server");
        tools.add(Tool::describe(BoundPlugin { plugin, options: vec![] }).await.unwrap()).unwrap();
    }
    let setup = EpisodeSetup {
        environment: &environment(),
        tools: &Arc::new(tools),
        task: TaskRef { split: "train".to_owned(), index: 0 },
        seeds: EpisodeSeeds { environment: Seed(1), tools: Seed(2) },
        overrides: Arc::new(overrides),
        max_bytes: 1 << 20,
    };
    Episode::open(setup, 1, &[], &mut NoHooks).await.unwrap()
}

async fn play(episode: &mut Episode, functions: &[&str]) {
    for function in functions {
        take_turn(episode, function, r#"{"a": 1, "b": 2}"#).await;
    }
}

async fn take_turn(episode: &mut Episode, function: &str, arguments: &str) {
    let written = WrittenCall::Sound { name: function.to_owned(), arguments: arguments.to_owned() };
    let reply = Reply { thoughts: None, message: String::new(), calls: vec![written] };
    assert_eq!(episode.take_turn(&mut NoHooks, reply, 100).await, None);
}

fn record(episode: &Episode) -> EpisodeRecord {
    let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 };
    let data = &episode.data;
    EpisodeRecord {
        turns: data.turns.clone(),
        failures: data.failures.clone(),
        costs: data.costs.clone(),
        ..EpisodeRecord::new(id, data.task.clone(), Seed(1), Ending::TurnLimit)
    }
}

fn answers(episode: &Episode) -> Vec<String> {
    let text = |turn: &Turn| match turn {
        Turn::Answer { content, .. } => Some(gymkhana_record::text_of(content)),
        _ => None,
    };
    episode.data.turns.iter().filter_map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_answers_from_the_record_without_the_server() {
    let server = server("die");
    let list = tools_of(&server).unwrap();
    let mut episode = begin(&list, Some(server), CallOverrides::default()).await;
    let functions = ["add", "count_calls", "misbehave", "count_calls"];
    play(&mut episode, &functions).await;
    let died = "the tool failed: it crashed; its state is lost";
    assert_eq!(answers(&episode), ["3", "2", died, "1"], "a new session follows the one that died");
    assert_eq!(episode.data.failures[0].kind, FailureKind::Trap);
    let recorded = record(&episode);
    let mut replay = begin(&list, None, CallOverrides::of(&recorded)).await;
    play(&mut replay, &functions).await;
    let replayed = record(&replay);
    assert_eq!(replayed.turns, recorded.turns);
    assert_eq!(replayed.failures, recorded.failures);
    // The costs of the tool are those of the record, to the microsecond; the environment runs again.
    let of_tools = |costs: &[CallCost]| -> Vec<CallCost> {
        costs.iter().filter(|cost| matches!(cost.at, Boundary::Tool(_))).cloned().collect()
    };
    assert_eq!(of_tools(&recorded.costs).len(), 4);
    assert_eq!(of_tools(&replayed.costs), of_tools(&recorded.costs));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_gives_a_new_session_the_calls_of_the_beginning() {
    let server = server("plain");
    let list = tools_of(&server).unwrap();
    let mut episode = begin(&list, Some(server.clone()), CallOverrides::default()).await;
    play(&mut episode, &["count_calls", "count_calls"]).await;
    let mut fork = begin(&list, Some(server), CallOverrides::of(&record(&episode))).await;
    play(&mut fork, &["count_calls", "count_calls"]).await;
    fork.end_replay(Arc::default());
    assert!(!fork.can_be_copied(), "a copy would lack the calls");
    play(&mut fork, &["count_calls"]).await;
    assert_eq!(answers(&fork), ["1", "2", "3"]);
}

/// A variable that `cargo xtask test --reference mcp` sets.
fn set(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is set by `cargo xtask test --reference mcp`"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs published servers: cargo xtask test --reference mcp"]
async fn published_servers_are_tools_and_replay_offline() {
    let time = server_of("time", vec![set("GYMKHANA_MCP_TIME"), "--local-timezone".to_owned(), "UTC".to_owned()]);
    let memory = server_of("memory", vec![set("GYMKHANA_MCP_NODE"), set("GYMKHANA_MCP_MEMORY")]);
    let servers: Vec<_> = [time, memory].into_iter().map(|server| (tools_of(&server).unwrap(), Some(server))).collect();
    let turns = [
        ("convert_time", r#"{"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"}"#),
        ("get_current_time", r#"{"timezone": "Nowhere/Land"}"#),
        (
            "create_entities",
            r#"{"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes sums"]}]}"#,
        ),
        ("search_nodes", r#"{"query": "sums"}"#),
    ];
    let mut episode = begin_with(&servers, CallOverrides::default()).await;
    for (function, arguments) in turns {
        take_turn(&mut episode, function, arguments).await;
    }
    let found = answers(&episode);
    // Japan is nine hours ahead of UTC, all year.
    assert!(found[0].contains("T00:30:00+00:00"), "{}", found[0]);
    assert!(found[3].contains("Ada"), "{}", found[3]);
    let failed = |turn: &Turn| matches!(turn, Turn::Answer { failed: true, .. });
    assert_eq!(episode.data.turns.iter().filter(|turn| failed(turn)).count(), 1, "the timezone does not exist");
    assert!(episode.data.failures.is_empty(), "{:?}", episode.data.failures);
    let recorded = record(&episode);
    let lists: Vec<_> = servers.into_iter().map(|(list, _)| (list, None)).collect();
    let mut replay = begin_with(&lists, CallOverrides::of(&recorded)).await;
    for (function, arguments) in turns {
        take_turn(&mut replay, function, arguments).await;
    }
    assert_eq!(record(&replay).turns, recorded.turns);
}
