//! An episode of a seat as spans of OpenTelemetry, one line of OTLP's JSON: the episode, each reply, and each call of a
//! tool. `gen_ai` names the attributes by OpenTelemetry's conventions, `openinference` by those of Arize.
//!
//! Records hold no moments, only lengths. The episode begins when the run file was written, replies share the time that the policy
//! took, calls take the time of their plugin, and all follow one another.

mod gen_ai;
mod openinference;

use gymkhana_record::{Call, CallSite, EpisodeRecord, Stream};
use serde_json::{Value as Json, json};

use crate::events::{AgentAction, TraceEvent, events};
use crate::replies::{RecordedReply, replies};
use crate::{About, trace_id};

/// Kinds of spans of OTLP: inside of the program, and a request to a server.
const INTERNAL: u32 = 1;
const CLIENT: u32 = 3;

/// Code of the status of a failed span of OTLP.
const ERROR: u32 = 2;

/// Attributes of a span, in the order of their writing.
type Attributes = Vec<(String, Json)>;

/// Names of attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AttributeNames {
    /// OpenTelemetry's conventions for generative AI.
    GenAi,
    /// OpenInference.
    OpenInference,
}

/// What the spans of an episode have in common.
struct SpanContext<'r> {
    record: &'r EpisodeRecord,
    seat: u32,
    about: &'r About,
    /// Name of the trace: the episode, and the seat if there are several.
    name: String,
}

/// A reply with all that was said before it.
struct Inference<'s, 'r> {
    before: &'s [TraceEvent<'r>],
    action: &'s AgentAction<'r>,
    /// The tokens; none if the record has none.
    reply: Option<&'s RecordedReply<'r>>,
}

/// A call of a tool.
struct Execution<'s> {
    call: &'s Call,
    description: Option<&'s str>,
    /// The answer; none if the episode ended before.
    answer: Option<&'s str>,
    failed: bool,
}

impl AttributeNames {
    fn of_episode(self, context: &SpanContext<'_>, events: &[TraceEvent<'_>]) -> (String, Attributes) {
        match self {
            Self::GenAi => gen_ai::of_episode(context),
            Self::OpenInference => openinference::of_episode(context, events),
        }
    }

    fn of_reply(self, context: &SpanContext<'_>, inference: &Inference<'_, '_>) -> (String, Attributes) {
        match self {
            Self::GenAi => gen_ai::of_reply(context, inference),
            Self::OpenInference => openinference::of_reply(context, inference),
        }
    }

    fn of_call(self, context: &SpanContext<'_>, execution: &Execution<'_>) -> (String, Attributes) {
        match self {
            Self::GenAi => gen_ai::of_call(context, execution),
            Self::OpenInference => openinference::of_call(context, execution),
        }
    }
}

/// The spans of a seat; none if it heard and did nothing.
pub(crate) fn trace(
    record: &EpisodeRecord,
    seat: u32,
    about: &About,
    vocabulary: AttributeNames,
) -> serde_json::Result<Option<String>> {
    let events = events(record, seat);
    if events.is_empty() {
        return Ok(None);
    }
    let context = SpanContext { record, seat, about, name: trace_id(record, seat) };
    let mut writer = SpanWriter::new(&context);
    let replies = replies(record, seat);
    for (place, event) in events.iter().enumerate() {
        let TraceEvent::Did(action) = event else { continue };
        if let Some(turn) = action.reply {
            let reply = replies.iter().find(|reply| reply.turn == turn);
            let inference = Inference { before: &events[..place], action, reply };
            writer.add(CLIENT, writer.reply_ns, vocabulary.of_reply(&context, &inference), None);
        }
        for call in &action.calls {
            let execution = execution(&context, call, &events[place..]);
            let error = execution.answer.filter(|_| execution.failed);
            let taken = writer.call_ns(&context, &call.id);
            writer.add(INTERNAL, taken, vocabulary.of_call(&context, &execution), error);
        }
    }
    serde_json::to_string(&writer.finish(&context, vocabulary.of_episode(&context, &events))).map(Some)
}

/// A call with its answer among the later events.
fn execution<'s>(context: &SpanContext<'s>, call: &'s Call, later: &'s [TraceEvent<'_>]) -> Execution<'s> {
    let answer = later.iter().find_map(|event| match event {
        TraceEvent::Answered { id, text, failed } if *id == Some(call.id.as_str()) => Some((text.as_str(), *failed)),
        _ => None,
    });
    let mut offered = crate::function::functions(context.record, context.seat).iter();
    let description = offered.find(|function| function.name == call.name).map(|function| function.description.as_str());
    let failed = answer.is_some_and(|(_, failed)| failed);
    Execution { call, description, answer: answer.map(|(text, _)| text), failed }
}

/// Spans so far, and the moment that the next one begins.
struct SpanWriter {
    /// Source of the ids. The same episode of the same run always has the same ones.
    ids: Stream,
    trace: String,
    root: String,
    spans: Vec<Json>,
    /// Nanoseconds since 1970.
    now_ns: u64,
    /// Nanoseconds of one reply.
    reply_ns: u64,
}

impl SpanWriter {
    fn new(context: &SpanContext<'_>) -> Self {
        let SpanContext { record, about, name, .. } = context;
        let mut ids = record.seed.child("trace").child(name).child(about.begun_ns).stream();
        let trace = format!("{:016x}{:016x}", ids.bits(), ids.bits());
        let root = format!("{:016x}", ids.bits());
        let replies = record.policy_turns.len().max(1) as f64;
        let reply_ns = (record.timing.policy_ms * 1e6 / replies) as u64;
        Self { ids, trace, root, spans: Vec::new(), now_ns: about.begun_ns, reply_ns }
    }

    /// Processor time of a call in its plugin; 0 for a function of an MCP server.
    fn call_ns(&self, context: &SpanContext<'_>, id: &str) -> u64 {
        let site = CallSite::tool(id);
        let own = context.record.costs.iter().filter(|cost| cost.call_site == site);
        (own.map(|cost| cost.cost.running_us).sum::<f64>() * 1e3) as u64
    }

    /// Adds a span after the ones before.
    fn add(&mut self, kind: u32, taken_ns: u64, described: (String, Attributes), error: Option<&str>) {
        let id = format!("{:016x}", self.ids.bits());
        let end_ns = self.now_ns.saturating_add(taken_ns);
        let mut span = span(&self.trace, &id, kind, self.now_ns..end_ns, described, error);
        span["parentSpanId"] = self.root.as_str().into();
        self.spans.push(span);
        self.now_ns = end_ns;
    }

    /// The request that exports the spans, the one of the episode first.
    fn finish(mut self, context: &SpanContext<'_>, described: (String, Attributes)) -> Json {
        let SpanContext { record, about, .. } = context;
        let whole = about.begun_ns.saturating_add((record.timing.total_ms * 1e6) as u64);
        let error = record.failures.first().map(ToString::to_string);
        let lasting = about.begun_ns..whole.max(self.now_ns);
        let root = span(&self.trace, &self.root, INTERNAL, lasting, described, error.as_deref());
        self.spans.insert(0, root);
        let of_service = [("service.name".to_owned(), about.agent.as_str().into())];
        json!({"resourceSpans": [{
            "resource": {"attributes": attributes(&of_service)},
            "scopeSpans": [{"scope": {"name": "gymkhana", "version": about.version}, "spans": self.spans}],
        }]})
    }
}

fn span(
    trace: &str,
    id: &str,
    kind: u32,
    lasting: std::ops::Range<u64>,
    (name, described): (String, Attributes),
    error: Option<&str>,
) -> Json {
    let mut span = json!({
        "traceId": trace, "spanId": id, "name": name, "kind": kind,
        // Numbers of 64 bits are texts in the JSON of OTLP.
        "startTimeUnixNano": lasting.start.to_string(), "endTimeUnixNano": lasting.end.to_string(),
        "attributes": attributes(&described),
    });
    if let Some(message) = error {
        span["status"] = json!({"code": ERROR, "message": message});
    }
    span
}

fn attributes(described: &[(String, Json)]) -> Json {
    described.iter().map(|(key, value)| json!({"key": key, "value": any_value(value)})).collect()
}

/// The value of an attribute; what OTLP has no type for is its text.
fn any_value(value: &Json) -> Json {
    match value {
        Json::Bool(value) => json!({"boolValue": value}),
        Json::Number(number) if number.is_i64() || number.is_u64() => json!({"intValue": number.to_string()}),
        Json::Number(number) => json!({"doubleValue": number}),
        Json::Array(values) => json!({"arrayValue": {"values": values.iter().map(any_value).collect::<Vec<_>>()}}),
        Json::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    }
}

/// Figures of the episode that neither vocabulary has a name for.
fn figures(context: &SpanContext<'_>) -> Vec<(&'static str, Json)> {
    let SpanContext { record, seat, .. } = context;
    let reward = record.rewards.get(*seat as usize);
    let mut figures = vec![
        ("task", record.task_name().into()),
        ("seat", (*seat).into()),
        ("success", record.success.into()),
        ("ending", record.ending.to_string().into()),
    ];
    figures.extend(reward.map(|reward| ("reward", (*reward).into())));
    figures
}

#[cfg(test)]
mod tests;
