//! The Agent Trajectory Interchange Format: a list of steps, each with the policy's message, calls, answers and tokens.

use gymkhana_record::EpisodeRecord;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::events::{AgentAction, TraceEvent, events};
use crate::function::{functions, tool};
use crate::replies::{RecordedReply, replies};
use crate::{About, trace_id};

/// The version of the format.
const SCHEMA: &str = "ATIF-v1.8";

#[derive(Serialize)]
struct AtifTrajectory<'r> {
    schema_version: &'static str,
    session_id: String,
    trajectory_id: String,
    agent: Json,
    steps: Vec<Step<'r>>,
    final_metrics: Json,
    extra: Json,
}

#[derive(Serialize, Default)]
struct Step<'r> {
    step_id: usize,
    source: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<Observation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<AtifMetrics<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_call_count: Option<u32>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra: Map<String, Json>,
}

#[derive(Serialize, Default)]
struct Observation {
    results: Vec<Json>,
}

#[derive(Serialize)]
struct AtifMetrics<'r> {
    prompt_tokens: usize,
    completion_tokens: usize,
    cached_tokens: usize,
    prompt_token_ids: &'r [u32],
    completion_token_ids: &'r [u32],
    logprobs: &'r [f32],
    extra: Json,
}

/// The trajectory of a seat; none if it has no step.
pub(crate) fn trajectory(record: &EpisodeRecord, seat: u32, about: &About) -> serde_json::Result<Option<String>> {
    let replies = replies(record, seat);
    let mut steps = Steps::default();
    for event in events(record, seat) {
        steps.add(event, record, &replies);
    }
    let mut steps = steps.0;
    if steps.is_empty() {
        return Ok(None);
    }
    if let Some(system) = &about.system {
        steps.insert(0, Step { source: "system", message: system.clone(), ..Step::default() });
    }
    (1..).zip(&mut steps).for_each(|(number, step)| step.step_id = number);
    let total = |tokens: fn(&RecordedReply<'_>) -> usize| replies.iter().map(tokens).sum::<usize>();
    let final_metrics = json!({
        "total_prompt_tokens": total(|reply| reply.prompt.len()),
        "total_completion_tokens": total(|reply| reply.tokens.len()),
        "total_cached_tokens": total(|reply| reply.earlier), "total_steps": steps.len(),
        "extra": {"reward": record.rewards.get(seat as usize), "success": record.success},
    });
    let id = trace_id(record, seat);
    let trajectory = AtifTrajectory {
        schema_version: SCHEMA,
        session_id: record.id.to_string(),
        trajectory_id: id,
        agent: agent(record, seat, about),
        steps,
        final_metrics,
        extra: json!({"task": record.task_name(), "seat": seat, "ending": record.ending.to_string()}),
    };
    serde_json::to_string(&trajectory).map(Some)
}

fn agent(record: &EpisodeRecord, seat: u32, about: &About) -> Json {
    let mut agent = json!({"name": about.agent, "version": about.version, "model_name": about.model});
    let functions: Vec<Json> = functions(record, seat).iter().map(tool).collect();
    if !functions.is_empty() {
        agent["tool_definitions"] = functions.into();
    }
    agent
}

/// The steps so far.
#[derive(Default)]
struct Steps<'r>(Vec<Step<'r>>);

impl<'r> Steps<'r> {
    fn add(&mut self, event: TraceEvent<'_>, record: &EpisodeRecord, replies: &[RecordedReply<'r>]) {
        match event {
            TraceEvent::Heard(message) => self.0.push(Step { source: "user", message, ..Step::default() }),
            TraceEvent::Answered { id, text, failed } => self.answer(id, text, failed),
            TraceEvent::Did(action) => {
                let reply = action.reply.and_then(|turn| replies.iter().find(|reply| reply.turn == turn));
                self.0.push(step(action, reply, record));
            }
        }
    }

    /// Adds an answer to the step with its call, or to the last step of the agent.
    fn answer(&mut self, id: Option<&str>, text: String, failed: bool) {
        let made = |step: &Step<'_>, id| step.tool_calls.iter().any(|call| call["tool_call_id"] == id);
        let caller = id.and_then(|id| self.0.iter().rposition(|step| made(step, id)));
        let mut result = json!({"content": text});
        if caller.is_some() {
            result["source_call_id"] = id.into();
        }
        if failed {
            result["extra"] = json!({"failed": true});
        }
        let last = || self.0.iter().rposition(|step| step.source == "agent");
        match caller.or_else(last) {
            Some(place) => self.0[place].observation.get_or_insert_default().results.push(result),
            None => self.0.push(Step { source: "user", message: text, ..Step::default() }),
        }
    }
}

/// The step of an action.
fn step<'r>(action: AgentAction<'_>, reply: Option<&RecordedReply<'r>>, record: &EpisodeRecord) -> Step<'r> {
    let call = |call: &&gymkhana_record::Call| {
        let arguments = serde_json::from_str::<Map<String, Json>>(&call.arguments).unwrap_or_default();
        json!({"tool_call_id": call.id, "function_name": call.name, "arguments": arguments})
    };
    let mut extra = Map::new();
    if !action.malformed.is_empty() {
        let texts: Vec<&str> = action.malformed.iter().map(|(_, text)| *text).collect();
        extra.insert("malformed_calls".to_owned(), json!(texts));
    }
    if action.is_note {
        extra.insert("note".to_owned(), true.into());
    }
    // Agent programs report no inference calls; for external agents this is unknown.
    let program = record.agent.is_some().then_some(0);
    Step {
        source: "agent",
        message: action.text.unwrap_or_default(),
        reasoning_content: action.thoughts.map(str::to_owned),
        tool_calls: action.calls.iter().map(call).collect(),
        metrics: reply.map(metrics),
        llm_call_count: if action.reply.is_some() { Some(1) } else { program },
        extra,
        ..Step::default()
    }
}

fn metrics<'r>(reply: &RecordedReply<'r>) -> AtifMetrics<'r> {
    AtifMetrics {
        prompt_tokens: reply.prompt.len(),
        completion_tokens: reply.tokens.len(),
        cached_tokens: reply.earlier,
        prompt_token_ids: reply.prompt,
        completion_token_ids: reply.tokens,
        logprobs: reply.log_probs,
        extra: json!({"segment": reply.segment, "weight_version": reply.version}),
    }
}
