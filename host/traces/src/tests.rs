//! Traces of small records, with expectations by hand.

use gymkhana_record::{
    AgentCall, AgentRun, Call, Content, Ending, EpisodeId, EpisodeRecord, Function, Opening, Part, Phase, PolicyTurn,
    Sampled, SeatFunctions, Seed, Segment, TaskRef, Turn,
};
use serde_json::{Value as Json, json};

use super::*;

fn text(text: &str) -> Content {
    vec![Part::Text(text.to_owned())]
}

fn policy_turn(turn: u32, transcript: u32) -> PolicyTurn {
    PolicyTurn { seat: 0, turn, transcript, steps: 0, state: None, probe_score: None, thought_tokens: 0, note: None }
}

fn sampled(tokens: &[u32], log_prob: f32) -> Sampled {
    let count = tokens.len();
    let (log_probs, entropies, versions) = (vec![log_prob; count], vec![0.0; count], vec![3; count]);
    Sampled { tokens: tokens.to_vec(), log_probs, entropies, versions }
}

fn call(id: &str, arguments: &str) -> Call {
    Call { id: id.to_owned(), name: "add".to_owned(), arguments: arguments.to_owned() }
}

/// A question; a reply with a call and a malformed one; their answers; a reply after an edited history; the output of
/// the program, with a call of its own before.
pub(crate) fn record() -> EpisodeRecord {
    let id = EpisodeId { stage: 0, phase: Phase::Train, step: 2, group: 1, member: 0, attempt: 0 };
    let task = TaskRef { split: "train".to_owned(), index: 5 };
    let mut first = Segment::new(0);
    first.append_given(&[1, 2, 3], 0);
    first.append_sampled(&sampled(&[4, 5], -0.5), 0).unwrap();
    let mut second = Segment::new(0);
    second.append_given(&[1, 9], 1);
    second.append_sampled(&sampled(&[7], -0.25), 1).unwrap();
    let function = Function {
        name: "add".to_owned(),
        description: "Adds.".to_owned(),
        parameters: "{\"type\": \"object\"}".to_owned(),
        cost: 0.0,
    };
    let answer =
        |id: &str, words: &str, failed| Turn::Answer { seat: 0, id: id.to_owned(), content: text(words), failed };
    let own = call("call-0", "{}");
    EpisodeRecord {
        opening: Opening {
            functions: vec![SeatFunctions { seat: 0, functions: vec![function] }],
            ..Opening::default()
        },
        turns: vec![
            Turn::Observation { seat: 0, content: text("2 + 2?") },
            Turn::Message { seat: 0, content: text("I add.") },
            Turn::Call { seat: 0, call: call("c-0", "{\"a\": 2}"), cost: 0.0 },
            Turn::MalformedCall { seat: 0, id: "c-1".to_owned(), text: "{".to_owned() },
            answer("c-0", "4", false),
            answer("c-1", "not JSON", true),
            Turn::Message { seat: 0, content: text("4") },
            Turn::Call { seat: 0, call: own.clone(), cost: 0.0 },
            answer("call-0", "0", false),
            Turn::Message { seat: 0, content: text("Four.") },
            Turn::Observation { seat: 0, content: text("Right.") },
        ],
        policy_turns: vec![policy_turn(0, 1), policy_turn(1, 6)],
        segments: vec![first, second],
        rewards: vec![0.75],
        success: true,
        agent: Some(AgentRun {
            answer: Some("Four.".to_owned()),
            calls: vec![AgentCall { call: own, listed: false, begin: 6, turns: 2 }],
            ..AgentRun::default()
        }),
        ..EpisodeRecord::new(id, task, Seed(1), Ending::Terminated)
    }
}

pub(crate) fn about() -> About {
    About {
        agent: "my_agent.py".to_owned(),
        version: "0.1.0".to_owned(),
        model: "policy".to_owned(),
        system: Some("Be brief.".to_owned()),
        begun_ns: 1_700_000_000_000_000_000,
    }
}

fn only(format: TraceFormat) -> Json {
    only_of(&record(), format)
}

pub(crate) fn only_of(record: &EpisodeRecord, format: TraceFormat) -> Json {
    let traces = traces(record, &about(), format).unwrap();
    let [trace] = &traces[..] else { panic!("{} traces", traces.len()) };
    serde_json::from_str(trace).unwrap()
}

#[test]
fn an_openenv_trace_holds_each_reply_once_with_its_prompt() {
    let metadata = |turn: u32, segment: u32| {
        json!({"episode": "0.train.2.1.0.0", "task": "train/5", "seat": 0, "turn": turn, "segment": segment,
            "weight_version": 3, "success": true, "reward": 0.75})
    };
    let expected = json!({"schema_version": 1, "turns": [
        {"node_id": "0.train.2.1.0.0/0/0", "prompt_token_ids": [1, 2, 3], "completion_token_ids": [4, 5],
            "per_token_logps": [-0.5, -0.5], "loss_mask": [0, 0, 0, 1, 1], "metadata": metadata(0, 0)},
        {"node_id": "0.train.2.1.0.0/0/1", "prompt_token_ids": [1, 9], "completion_token_ids": [7],
            "per_token_logps": [-0.25], "loss_mask": [0, 0, 1], "metadata": metadata(1, 1)},
    ]});
    assert_eq!(only(TraceFormat::OpenEnv), expected);
}

#[test]
fn an_atif_trajectory_holds_messages_calls_answers_and_tokens() {
    let trajectory = only(TraceFormat::Atif);
    let metrics = |prompt: &[u32], tokens: &[u32], log_prob: f64, segment: u32| {
        json!({"prompt_tokens": prompt.len(), "completion_tokens": tokens.len(), "cached_tokens": 0,
            "prompt_token_ids": prompt, "completion_token_ids": tokens, "logprobs": vec![log_prob; tokens.len()],
            "extra": {"segment": segment, "weight_version": 3}})
    };
    let steps = json!([
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": "2 + 2?"},
        {"step_id": 3, "source": "agent", "message": "I add.",
            "tool_calls": [{"tool_call_id": "c-0", "function_name": "add", "arguments": {"a": 2}}],
            "observation": {"results": [
                {"content": "4", "source_call_id": "c-0"},
                {"content": "not JSON", "extra": {"failed": true}}]},
            "metrics": metrics(&[1, 2, 3], &[4, 5], -0.5, 0), "llm_call_count": 1,
            "extra": {"malformed_calls": ["{"]}},
        {"step_id": 4, "source": "agent", "message": "4", "metrics": metrics(&[1, 9], &[7], -0.25, 1),
            "llm_call_count": 1},
        {"step_id": 5, "source": "agent", "message": "",
            "tool_calls": [{"tool_call_id": "call-0", "function_name": "add", "arguments": {}}],
            "observation": {"results": [{"content": "0", "source_call_id": "call-0"}]}, "llm_call_count": 0},
        {"step_id": 6, "source": "agent", "message": "Four.", "llm_call_count": 0},
        {"step_id": 7, "source": "user", "message": "Right."},
    ]);
    assert_eq!(trajectory["steps"], steps);
    assert_eq!(trajectory["schema_version"], "ATIF-v1.8");
    assert_eq!(
        (&trajectory["session_id"], &trajectory["trajectory_id"]),
        (&json!("0.train.2.1.0.0"), &json!("0.train.2.1.0.0"))
    );
    let expected = json!({"total_prompt_tokens": 5, "total_completion_tokens": 3, "total_cached_tokens": 0,
        "total_steps": 7, "extra": {"reward": 0.75, "success": true}});
    assert_eq!(trajectory["final_metrics"], expected);
    assert_eq!(trajectory["agent"]["tool_definitions"][0]["function"]["name"], "add");
}

#[test]
fn a_trace_of_verifiers_has_a_path_for_each_segment() {
    let trace = only(TraceFormat::Verifiers);
    let nodes = trace["nodes"].as_array().unwrap();
    let parents: Vec<&Json> = nodes.iter().map(|node| &node["parent"]).collect();
    // Two roots, each with the system message, and what came after the last reply.
    let none = Json::Null;
    let expected = [
        &none,
        &json!(0),
        &json!(1),
        &none,
        &json!(3),
        &json!(4),
        &json!(5),
        &json!(6),
        &json!(7),
        &json!(8),
        &json!(9),
    ];
    assert_eq!(parents, expected);
    let roles: Vec<&str> = nodes.iter().map(|node| node["message"]["role"].as_str().unwrap()).collect();
    let (system, user, assistant, tool) = ("system", "user", "assistant", "tool");
    assert_eq!(roles, [system, user, assistant, system, tool, user, assistant, assistant, tool, assistant, user]);
    let of_policy: Vec<usize> = (0..nodes.len()).filter(|place| nodes[*place]["sampled"] == true).collect();
    assert_eq!(of_policy, [2, 6]);
    assert_eq!(
        (&nodes[2]["token_ids"], &nodes[2]["mask"], &nodes[2]["logprobs"]),
        (&json!([1, 2, 3, 4, 5]), &json!([false, false, false, true, true]), &json!([-0.5, -0.5]))
    );
    assert_eq!((&nodes[6]["token_ids"], &nodes[6]["mask"]), (&json!([1, 9, 7]), &json!([false, false, true])));
    assert_eq!(nodes[2]["message"]["content"], "I add.\n{");
    assert_eq!(nodes[0]["tools"][0]["name"], "add");
    assert!(nodes[1].get("tools").is_none());
    let usage = |prompt: u32, completion: u32| json!({"prompt_tokens": prompt, "completion_tokens": completion, "cached_input_tokens": 0});
    let calls = json!([
        {"node": 2, "model": "policy", "finish_reason": "tool_calls", "usage": usage(3, 2)},
        {"node": 6, "model": "policy", "finish_reason": null, "usage": usage(2, 1)},
    ]);
    assert_eq!(trace["calls"], calls);
    assert_eq!(trace["rewards"], json!({"reward": {"score": 0.75, "weight": 1.0}}));
    assert_eq!(
        (&trace["metrics"]["success"], &trace["ok"], &trace["stop_condition"]),
        (&json!(1.0), &json!(true), &json!("agent_completed"))
    );
}

#[test]
fn a_segment_that_grows_is_one_path() {
    let mut record = record();
    let mut segment = Segment::new(0);
    segment.append_given(&[1, 2, 3], 0);
    segment.append_sampled(&sampled(&[4, 5], -0.5), 0).unwrap();
    segment.append_given(&[8], 1);
    segment.append_sampled(&sampled(&[7], -0.25), 1).unwrap();
    record.segments = vec![segment];
    let trace = only_of(&record, TraceFormat::Verifiers);
    let roots = trace["nodes"].as_array().unwrap().iter().filter(|node| node["parent"].is_null()).count();
    assert_eq!(roots, 1);
    // The tokens along the path are those of the segment.
    let tokens: Vec<Json> = trace["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|node| node["token_ids"].as_array().unwrap().clone())
        .collect();
    assert_eq!(tokens, [1, 2, 3, 4, 5, 8, 7].map(Json::from));
    let trace = only_of(&record, TraceFormat::OpenEnv);
    assert_eq!(trace["turns"][1]["prompt_token_ids"], json!([1, 2, 3, 4, 5, 8]));
    assert_eq!(trace["turns"][1]["loss_mask"], json!([0, 0, 0, 0, 0, 0, 1]));
}

#[test]
fn an_episode_without_tokens_has_no_training_trace() {
    let served = EpisodeRecord { segments: vec![], policy_turns: vec![], ..record() };
    assert_eq!(traces(&served, &about(), TraceFormat::OpenEnv).unwrap(), Vec::<String>::new());
    assert_eq!(traces(&served, &about(), TraceFormat::Atif).unwrap().len(), 1);
    let never_started = EpisodeRecord { turns: vec![], ..served };
    assert_eq!(traces(&never_started, &about(), TraceFormat::Verifiers).unwrap(), Vec::<String>::new());
}

#[test]
fn chat_messages_are_the_transcript() {
    let tool = json!({"name": "add", "description": "Adds.", "parameters": {"type": "object"}});
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "add", "arguments": arguments}});
    let figures = json!({"episode": "0.train.2.1.0.0", "task": "train/5", "success": true, "reward": 0.75});
    let line = |own: Json| {
        let mut line = figures.as_object().unwrap().clone();
        line.extend(own.as_object().unwrap().clone());
        Json::Object(line)
    };
    let expected = line(json!({
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2 + 2?"},
            {"role": "assistant", "content": "I add.\n{", "tool_calls": [call("c-0", "{\"a\": 2}")]},
            {"role": "tool", "tool_call_id": "c-0", "content": "4"},
            {"role": "user", "content": "not JSON"},
            {"role": "assistant", "content": "4"},
            {"role": "assistant", "content": null, "tool_calls": [call("call-0", "{}")]},
            {"role": "tool", "tool_call_id": "call-0", "content": "0"},
            {"role": "assistant", "content": "Four."},
            {"role": "user", "content": "Right."},
        ],
        "tools": [{"type": "function", "function": tool}],
    }));
    assert_eq!(only(TraceFormat::OpenAi), expected);
    let turn = |from: &str, value: &str| json!({"from": from, "value": value});
    let expected = line(json!({
        "conversations": [
            turn("system", "Be brief."),
            turn("human", "2 + 2?"),
            turn("gpt", "I add.\n{"),
            turn("function_call", "{\"name\":\"add\",\"arguments\":{\"a\":2}}"),
            turn("observation", "4"),
            turn("human", "not JSON"),
            turn("gpt", "4"),
            turn("function_call", "{\"name\":\"add\",\"arguments\":{}}"),
            turn("observation", "0"),
            turn("gpt", "Four."),
            turn("human", "Right."),
        ],
        "tools": serde_json::to_string(&json!([tool])).unwrap(),
    }));
    assert_eq!(only(TraceFormat::ShareGpt), expected);
    let silent = EpisodeRecord { turns: record().turns[..1].to_vec(), policy_turns: vec![], ..record() };
    assert_eq!(traces(&silent, &about(), TraceFormat::OpenAi).unwrap(), Vec::<String>::new());
}

#[test]
fn a_row_of_a_table_has_a_value_for_each_column() {
    let row = only(TraceFormat::Wandb);
    let conversation = "system: Be brief.\n\nuser: 2 + 2?\n\nassistant: I add.\n{\nadd({\"a\": 2})\n\ntool: 4\n\n\
                        user: not JSON\n\nassistant: 4\n\nassistant: add({})\n\ntool: 0\n\nassistant: Four.\n\nuser: Right.";
    let expected =
        json!(["0.train.2.1.0.0", 0, "train", 2, 1, 0, null, "train/5", 0, true, 0.75, 2, "terminated", conversation]);
    assert_eq!(row, expected);
    assert_eq!(row.as_array().unwrap().len(), WANDB_COLUMNS.len());
}

/// A message of a tool follows the message with its call, and has its id.
fn pairs(messages: &[Json]) -> bool {
    let mut open: Vec<&Json> = vec![];
    messages.iter().all(|message| {
        if message["role"] == "tool" {
            return open
                .iter()
                .position(|id| **id == message["tool_call_id"])
                .map(|place| open.remove(place))
                .is_some();
        }
        let is_answered = open.is_empty();
        open = message["tool_calls"].as_array().map_or(vec![], |calls| calls.iter().map(|call| &call["id"]).collect());
        is_answered
    })
}

/// Sound and malformed calls in all orders, with answers in the order of the calls.
#[test]
fn every_answer_of_a_tool_has_its_call() {
    for order in ["m", "mm", "ms", "sm", "msm", "sms", "mss"] {
        let ids: Vec<String> = (0..order.len()).map(|number| format!("c-{number}")).collect();
        let mut turns = vec![Turn::Observation { seat: 0, content: text("2 + 2?") }];
        turns.extend(order.chars().zip(&ids).map(|(kind, id)| match kind {
            's' => Turn::Call { seat: 0, call: call(id, "{}"), cost: 0.0 },
            _ => Turn::MalformedCall { seat: 0, id: id.clone(), text: "{".to_owned() },
        }));
        turns.extend(ids.iter().map(|id| Turn::Answer { seat: 0, id: id.clone(), content: text(id), failed: false }));
        turns.push(Turn::Message { seat: 0, content: text("Four.") });
        let policy_turns = vec![policy_turn(0, 1), policy_turn(1, turns.len() as u32 - 1)];
        let record = EpisodeRecord { turns, policy_turns, agent: None, segments: vec![], ..record() };
        let line = only_of(&record, TraceFormat::OpenAi);
        let messages = line["messages"].as_array().unwrap();
        assert!(pairs(messages), "{order}: {messages:?}");
        assert_eq!(messages.len(), 4 + order.len(), "{order}: {messages:?}");
        let share_gpt = only_of(&record, TraceFormat::ShareGpt);
        let turns = share_gpt["conversations"].as_array().unwrap();
        let count = |from: &str| turns.iter().filter(|turn| turn["from"] == from).count();
        assert_eq!(count("observation"), order.matches('s').count(), "{order}");
    }
}
