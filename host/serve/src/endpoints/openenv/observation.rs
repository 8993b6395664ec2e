//! Observations: what an agent sees, apart from what its trainer alone may know.
//!
//! The inner object is for the agent, as clients show it whole to the model; rewards, facts and failures are beside it.

use gymkhana_record::{Content, Function};
use serde_json::{Value as Json, json};

use crate::endpoints::json::{facts, media, schema};
use crate::error::Owner;
use crate::session::{CallAnswer, ResetResult, TurnAnswer};

/// The observation of a reset.
pub(super) fn opened(opened: &ResetResult) -> Json {
    let functions = opened.functions().iter().map(|function| {
        json!({ "name": function.name, "description": function.description, "parameters": schema(function) })
    });
    let observation = json!({
        "text": opened.text(opened.seat),
        "media": media_of(opened.observations.iter(), opened.seat),
        "functions": functions.collect::<Vec<_>>(),
        "seat": opened.seat,
        "metadata": {},
    });
    let task = json!({ "split": opened.task.split, "index": opened.task.index });
    let metadata = json!({ "task": task, "seed": opened.seed });
    json!({ "observation": observation, "reward": null, "done": false, "metadata": metadata })
}

/// The observation of a step: of the seat to move next.
pub(super) fn stepped(step: &TurnAnswer) -> Json {
    let answers = step.answers.iter().map(
        |answer| json!({ "name": answer.call.name, "text": answer.text(), "failed": answer.failed.map(Owner::label) }),
    );
    let seat = step.next_seat;
    let contents = step.answers.iter().map(|answer| (step.seat, &answer.content));
    let contents = contents.chain(step.observations.iter().map(|(seat, content)| (*seat, content)));
    let own = contents.filter(|(own, _)| *own == seat).map(|(_, content)| content);
    let observation = json!({
        "text": step.text(seat),
        "media": media_entries(own),
        "answers": if seat == step.seat { answers.collect::<Vec<_>>() } else { vec![] },
        "seat": seat,
        "metadata": {},
    });
    outcome(&observation, step)
}

/// The observation of a step that was one call of the protocol's form.
pub(super) fn called(name: &str, step: &TurnAnswer) -> Json {
    let answer = step.answers.first();
    // What the environment adds belongs to the answer.
    let added = step.observations.iter().filter(|(seat, _)| *seat == step.seat);
    let added = added.map(|(_, content)| gymkhana_record::text_of(content)).collect::<Vec<_>>();
    let error = answer.and_then(|answer| Some((answer.failed?, answer.text())));
    let error = error.map(|(_, message)| json!({ "error_type": "execution_error", "message": message }));
    let observation = json!({
        "tool_name": name,
        "result": if error.is_none() { answer.map(result) } else { None },
        "error": error,
        "text": added.join("\n"),
        "metadata": {},
    });
    outcome(&observation, step)
}

/// The list of functions as an observation.
pub(super) fn listed(functions: &[Function]) -> Json {
    let tools = functions.iter().map(|function| {
        json!({ "name": function.name, "description": function.description, "input_schema": schema(function) })
    });
    let observation = json!({ "tools": tools.collect::<Vec<_>>(), "metadata": {} });
    json!({ "observation": observation, "reward": null, "done": false })
}

/// The result of a call in the form of FastMCP, from whose `data` clients take the value.
pub(super) fn result(answer: &CallAnswer) -> Json {
    let text = answer.text();
    let blocks = media([&answer.content].into_iter()).into_iter().map(|(mime, data)| {
        let kind = if mime.starts_with("audio/") { "audio" } else { "image" };
        json!({ "type": kind, "data": data, "mimeType": mime })
    });
    let content = std::iter::once(json!({ "type": "text", "text": text })).chain(blocks).collect::<Vec<_>>();
    let structured = answer.structured();
    json!({
        "content": content,
        "structured_content": structured,
        "data": structured.clone().unwrap_or_else(|| json!(text)),
        "is_error": answer.failed.is_some(),
    })
}

fn outcome(observation: &Json, step: &TurnAnswer) -> Json {
    json!({
        "observation": observation,
        "reward": step.reward(step.seat),
        "done": step.done(),
        "metadata": facts(step),
    })
}

fn media_of<'a>(observations: impl Iterator<Item = &'a (u32, Content)>, seat: u32) -> Vec<Json> {
    media_entries(observations.filter(|(own, _)| *own == seat).map(|(_, content)| content))
}

fn media_entries<'a>(contents: impl Iterator<Item = &'a Content>) -> Vec<Json> {
    media(contents).into_iter().map(|(mime, data)| json!({ "mime": mime, "data": data })).collect()
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Call, Ending, NamedValue, Part, Value};

    use super::*;

    fn step(answer: &str, failed: Option<Owner>) -> TurnAnswer {
        let call = Call { id: "1".to_owned(), name: "add".to_owned(), arguments: "{}".to_owned() };
        TurnAnswer {
            turn: 0,
            seat: 0,
            answers: vec![CallAnswer { call, content: vec![Part::Text(answer.to_owned())], failed }],
            observations: vec![(0, vec![Part::Text("seen".to_owned())])],
            rewards: vec![0.5],
            ending: Some(Ending::Terminated),
            extras: vec![NamedValue { name: "success".to_owned(), value: Value::Flag(true) }],
            failures: vec![],
            next_seat: 0,
            score: None,
        }
    }

    #[test]
    fn facts_are_outside_of_what_the_agent_sees() {
        let json = stepped(&step("3", None));
        assert_eq!(json["observation"]["text"], "3\nseen");
        assert_eq!(json["observation"]["metadata"], json!({}));
        assert_eq!((&json["reward"], &json["done"]), (&json!(0.5), &json!(true)));
        assert_eq!(json["metadata"]["facts"], json!({ "success": true }));
        assert!(!json["observation"].to_string().contains("success"));
    }

    #[test]
    fn a_call_has_the_keys_that_clients_read() {
        let json = called("add", &step(r#"{"sum": 3}"#, None));
        assert_eq!(json["observation"]["tool_name"], "add");
        assert_eq!(json["observation"]["result"]["data"], json!({ "sum": 3 }));
        assert_eq!(json["observation"]["error"], json!(null));
        let json = called("add", &step("broken", Some(Owner::Tool)));
        assert_eq!(json["observation"]["error"], json!({ "error_type": "execution_error", "message": "broken" }));
        assert_eq!(json["observation"]["result"], json!(null));
    }
}
