//! The trace of verifiers: a graph of messages, in which each reply holds the tokens since the reply before it.
//!
//! A record does not say which token of a prompt belongs to which message, so that all tokens of a prompt are with the
//! reply after it, outside its mask. A segment is a path from a root to a leaf, and so becomes one training sample.

use std::collections::HashMap;

use gymkhana_record::{Ending, EpisodeRecord};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::events::{AgentAction, TraceEvent, events};
use crate::function::{functions, parameters};
use crate::replies::{RecordedReply, replies};
use crate::{About, trace_id};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct VerifiersTrace<'r> {
    #[serde(flatten)]
    facts: Json,
    nodes: Vec<Node<'r>>,
    calls: Vec<Json>,
}

#[derive(Serialize)]
struct Node<'r> {
    parent: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Json>,
    message: Json,
    sampled: bool,
    /// Records hold no times of messages.
    timestamp: f64,
    token_ids: &'r [u32],
    mask: Vec<bool>,
    logprobs: &'r [f32],
}

impl<'r> Node<'r> {
    /// A message, which is a reply of the policy if there is one.
    fn of(parent: Option<usize>, tools: Vec<Json>, message: Json, reply: Option<RecordedReply<'r>>) -> Self {
        let (token_ids, logprobs) = reply.map_or((&[][..], &[][..]), |reply| (reply.added, reply.log_probs));
        let mut mask = vec![false; token_ids.len() - logprobs.len()];
        mask.resize(token_ids.len(), true);
        Self { parent, tools, message, sampled: reply.is_some(), timestamp: 0.0, token_ids, mask, logprobs }
    }
}

/// The trace of a seat; none if it has no message.
pub(crate) fn trace(record: &EpisodeRecord, seat: u32, about: &About) -> serde_json::Result<Option<String>> {
    let replies = replies(record, seat);
    let mut graph = Graph::new(record, seat, about);
    for event in events(record, seat) {
        match event {
            TraceEvent::Heard(text) => graph.waiting.push((json!({"role": "user", "content": text}), None)),
            TraceEvent::Answered { id: None, text, .. } => {
                graph.waiting.push((json!({"role": "user", "content": text}), None));
            }
            TraceEvent::Answered { id: Some(id), text, .. } => {
                graph.waiting.push((json!({"role": "tool", "tool_call_id": id, "content": text}), None));
            }
            TraceEvent::Did(action) => {
                let reply = action.reply.and_then(|turn| replies.iter().find(|reply| reply.turn == turn));
                graph.waiting.push((assistant(&action), reply.copied()));
                if let Some(reply) = reply {
                    graph.reply(reply, &action);
                }
            }
        }
    }
    graph.end();
    if graph.nodes.is_empty() {
        return Ok(None);
    }
    let Graph { nodes, calls, .. } = graph;
    serde_json::to_string(&VerifiersTrace { facts: facts(record, seat, about), nodes, calls }).map(Some)
}

/// The part of a trace that is not a message.
fn facts(record: &EpisodeRecord, seat: u32, about: &About) -> Json {
    let reward = record.rewards.get(seat as usize).map(|reward| json!({"score": reward, "weight": 1.0}));
    let error = |failure: &gymkhana_record::Failure| {
        let kind = serde_json::to_value(failure.kind).ok().and_then(|kind| kind.as_str().map(str::to_owned));
        json!({"type": kind.unwrap_or_default(), "message": failure.to_string()})
    };
    let seconds = record.timing.total_ms / 1e3;
    let model = record.timing.policy_ms / 1e3;
    json!({
        "version": VERSION,
        "id": trace_id(record, seat),
        "verifiers": {"version": format!("gymkhana {}", about.version)},
        "task": {
            "type": "Task",
            "data": {"idx": record.task.index, "id": record.task_name(), "system_prompt": about.system},
            "key": record.task_name(),
        },
        "agent": {"config": {"model": about.model}, "name": about.agent, "trainable": record.selected},
        "tools": tools(record, seat),
        "rewards": {"reward": reward},
        "metrics": metrics(record, seat),
        "info": {"episode": record.id.to_string(), "seat": seat, "ending": record.ending.to_string()},
        "is_completed": true,
        "ok": !matches!(record.ending, Ending::EnvironmentFailed | Ending::AgentFailed | Ending::Dropped),
        "stop_condition": stop_condition(record.ending),
        "is_timeout": record.ending == Ending::TimeLimit,
        "errors": record.failures.iter().map(error).collect::<Vec<_>>(),
        "timing": {"start": 0.0, "agent": {
            "start": 0.0, "end": seconds, "model": {"duration": model}, "harness": {"duration": seconds - model},
        }},
    })
}

/// The ending in the words of the format, where it has one.
fn stop_condition(ending: Ending) -> String {
    match ending {
        Ending::TurnLimit => "max_turns".to_owned(),
        Ending::ContextLimit => "max_total_tokens".to_owned(),
        Ending::TimeLimit => "agent_timeout".to_owned(),
        Ending::Terminated => "agent_completed".to_owned(),
        other => other.to_string(),
    }
}

/// Success, the environment's rewards, and the total of each reward plugin.
fn metrics(record: &EpisodeRecord, seat: u32) -> Map<String, Json> {
    let mut metrics = Map::new();
    metrics.insert("success".to_owned(), f64::from(u8::from(record.success)).into());
    if let Some(own) = record.environment_rewards.iter().find(|rewards| rewards.seat == seat) {
        metrics.insert("environment".to_owned(), own.rewards.iter().sum::<f64>().into());
    }
    for plugin in &record.scores {
        if let Some(score) = plugin.scores.iter().find(|score| score.seat == seat) {
            metrics.insert(plugin.plugin.clone(), score.total.into());
        }
    }
    metrics
}

fn tools(record: &EpisodeRecord, seat: u32) -> Vec<Json> {
    let tool = |function: &gymkhana_record::Function| {
        json!({
            "type": "function", "name": function.name, "description": function.description,
            "parameters": parameters(function),
        })
    };
    functions(record, seat).iter().map(tool).collect()
}

/// The message of an action. Calls that could not be parsed stay in the text.
fn assistant(action: &AgentAction<'_>) -> Json {
    let texts = action.text.iter().map(String::as_str).chain(action.malformed.iter().map(|(_, text)| *text));
    let text = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(thoughts) = action.thoughts {
        message["reasoning_content"] = thoughts.into();
    }
    if !action.calls.is_empty() {
        let call = |call: &&gymkhana_record::Call| json!({"id": call.id, "type": "function", "name": call.name, "arguments": call.arguments});
        message["tool_calls"] = action.calls.iter().map(call).collect::<Vec<_>>().into();
    }
    message
}

/// The graph so far.
struct Graph<'r> {
    nodes: Vec<Node<'r>>,
    calls: Vec<Json>,
    /// Messages since the last reply.
    waiting: Vec<(Json, Option<RecordedReply<'r>>)>,
    /// The last node of each segment.
    ends: HashMap<usize, usize>,
    /// The last node.
    last: Option<usize>,
    tools: Vec<Json>,
    model: String,
    system: Option<String>,
}

impl<'r> Graph<'r> {
    fn new(record: &EpisodeRecord, seat: u32, about: &About) -> Self {
        Self {
            nodes: vec![],
            calls: vec![],
            waiting: vec![],
            ends: HashMap::new(),
            last: None,
            tools: tools(record, seat),
            model: about.model.clone(),
            system: about.system.clone(),
        }
    }

    /// Adds the messages that wait to the path of a reply's segment, the reply last.
    fn reply(&mut self, reply: &RecordedReply<'r>, action: &AgentAction<'_>) {
        let parent = self.ends.get(&reply.segment).copied();
        let end = self.path(parent);
        self.ends.extend(end.map(|end| (reply.segment, end)));
        let finish = if action.calls.is_empty() { Json::Null } else { "tool_calls".into() };
        self.calls.push(json!({
            "node": end, "model": self.model, "finish_reason": finish,
            "usage": {
                "prompt_tokens": reply.prompt.len() - reply.earlier, "completion_tokens": reply.tokens.len(),
                "cached_input_tokens": reply.earlier,
            },
        }));
    }

    /// Adds the messages after the last reply.
    fn end(&mut self) {
        self.path(self.last);
    }

    /// Adds the messages that wait after a node, or as a path of their own. Returns the last node.
    fn path(&mut self, parent: Option<usize>) -> Option<usize> {
        let mut parent = parent;
        let system = self.system.clone().filter(|_| parent.is_none() && !self.waiting.is_empty());
        let system = system.map(|text| (json!({"role": "system", "content": text}), None));
        let waiting: Vec<_> = system.into_iter().chain(std::mem::take(&mut self.waiting)).collect();
        for (message, reply) in waiting {
            let tools = if parent.is_none() { self.tools.clone() } else { vec![] };
            self.nodes.push(Node::of(parent, tools, message, reply));
            parent = Some(self.nodes.len() - 1);
        }
        self.last = parent.or(self.last);
        parent
    }
}
