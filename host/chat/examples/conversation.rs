//! Renders conversations for comparisons with other implementations. Reads lines of JSON and writes a line for each.
//!
//! A line holds the paths `tokenizer`, `config` and `template`, the ids of `ends` of replies, `messages` and `tools` as `OpenAI`'s API takes them (with
//! `reasoning_content`, and `name` in results), `switches` for the template, `as_given` if the template is to get messages
//! that it leaves out, and `grow` for a context that grows turn by turn, in which replies have tokens.
//!
//! The answer is `error`, or `text`, `tokens` and `told` (whether the host moves tools, instructions and results into
//! messages that the template shows), `lists_contents` and `text_arguments`. With `grow` it is `turns`: for each prompt the number of
//! `messages`, whether the context began again, the tokens `appended`, all `tokens`, and those of the same conversation
//! without a context before it as `whole`.

use std::error::Error;
use std::io::{BufRead as _, Write as _};

use gymkhana_chat::{
    AnsweredCall, ChatFiles, ChatFormat, Extension, Message, NewCall, NewReply, Rendered, Role, SpokenCall, SpokenParts,
};
use gymkhana_record::Function;
use serde_json::{Value as Json, json};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    let mut last: Option<(Json, Result<ChatFormat, String>)> = None;
    for line in std::io::stdin().lock().lines() {
        let case: Json = serde_json::from_str(&line?)?;
        let keys = ["tokenizer", "config", "template", "ends", "switches", "as_given"];
        let files: Json = keys.iter().map(|key| case[*key].clone()).collect();
        if last.as_ref().is_none_or(|(known, _)| *known != files) {
            last = Some((files, format(&case).map_err(|error| reason(&*error))));
        }
        let answer = match last.as_ref().map(|(_, format)| format) {
            Some(Ok(format)) => answer(format, &case).unwrap_or_else(|error| json!({ "error": reason(&*error) })),
            Some(Err(error)) => json!({ "refused": error }),
            None => Json::Null,
        };
        writeln!(output, "{answer}")?;
    }
    Ok(())
}

/// An error with its sources.
fn reason(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", reason(source)))
}

fn format(case: &Json) -> Result<ChatFormat, Failure> {
    let read = |key: &str| std::fs::read_to_string(text(&case[key]));
    let (tokenizer, config, template) = (read("tokenizer")?, read("config")?, Some(read("template")?));
    let ends = list(&case["ends"]).iter().filter_map(Json::as_u64).filter_map(|id| id.try_into().ok()).collect();
    let mut format = ChatFormat::new(&ChatFiles { tokenizer, config, template, ends })?;
    if let Some(switches) = case["switches"].as_object() {
        format = format.with_switches(switches.clone());
    }
    Ok(if case["as_given"] == true { format.with_messages_as_given() } else { format })
}

fn answer(format: &ChatFormat, case: &Json) -> Result<Json, Failure> {
    let functions: Vec<Function> = list(&case["tools"]).iter().map(function).collect();
    let mut messages: Vec<Message> = Vec::new();
    if case["grow"] == true {
        return grow(format, list(&case["messages"]), &functions);
    }
    for given in list(&case["messages"]) {
        let message = message(given, &messages);
        messages.push(message);
    }
    let (extension, rendered) = format.extend(&Rendered::default(), &messages, &functions, false)?;
    let (Extension::Append(tokens) | Extension::Restart(tokens)) = extension;
    let report = format.report();
    let told = json!([report.tells_tools, report.folds_system, report.folds_results]);
    Ok(json!({
        "text": rendered.text(), "tokens": tokens, "told": told, "lists_contents": report.lists_contents,
        "text_arguments": report.text_arguments,
    }))
}

/// The prompts of a conversation whose replies are sampled.
fn grow(format: &ChatFormat, given: &[Json], functions: &[Function]) -> Result<Json, Failure> {
    let (mut messages, mut context, mut turns): (Vec<Message>, Vec<u32>, Vec<Json>) = (vec![], vec![], vec![]);
    let mut before = Rendered::default();
    for (place, given) in given.iter().map(Some).chain([None]).enumerate() {
        if let Some(given) = given.filter(|given| given["role"] != "assistant") {
            messages.push(message(given, &messages));
            continue;
        }
        let (extension, rendered) = format.extend(&before, &messages, functions, !turns.is_empty())?;
        let restarted = matches!(extension, Extension::Restart(_)) && !turns.is_empty();
        let appended = match extension {
            Extension::Append(tokens) => {
                context.extend_from_slice(&tokens);
                tokens
            }
            Extension::Restart(tokens) => {
                context = tokens;
                vec![]
            }
        };
        let (whole, _) = format.extend(&Rendered::default(), &messages, functions, false)?;
        let (Extension::Append(whole) | Extension::Restart(whole)) = whole;
        turns.push(json!({
            "messages": place, "restarted": restarted, "appended": appended, "tokens": context, "whole": whole,
        }));
        let Some(given) = given else { break };
        let mut reply = message(given, &messages);
        let parts = reply.parts.take().map(|parts| *parts).unwrap_or_default();
        let call = |call: &'_ SpokenCall| (call.name.clone(), call.arguments.clone());
        let calls: Vec<(String, String)> = parts.calls.iter().map(call).collect();
        let calls: Vec<NewCall<'_>> = calls.iter().map(|(name, arguments)| NewCall { name, arguments }).collect();
        let written = NewReply { thoughts: parts.thoughts.as_deref(), text: &parts.message, calls: &calls };
        let tokens = format.write_reply(&written, rendered.begun())?;
        context.extend_from_slice(&tokens);
        let text = format.decode_reply(&tokens)?;
        messages.push(Message::reply(text, tokens[..tokens.len() - 1].to_vec()).with_parts(parts));
        before = rendered;
    }
    Ok(json!({ "turns": turns }))
}

fn message(given: &Json, earlier: &[Message]) -> Message {
    let content = text(&given["content"]);
    let role = match text(&given["role"]) {
        "system" => Role::System,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => Role::User,
    };
    if role == Role::Assistant {
        let call = |call: &Json| SpokenCall {
            id: text(&call["id"]).to_owned(),
            name: text(&call["function"]["name"]).to_owned(),
            arguments: match &call["function"]["arguments"] {
                Json::String(arguments) => arguments.clone(),
                arguments => arguments.to_string(),
            },
        };
        let parts = SpokenParts {
            thoughts: given["reasoning_content"].as_str().map(str::to_owned),
            message: content.to_owned(),
            calls: list(&given["tool_calls"]).iter().map(call).collect(),
        };
        return Message::of_text(role, content).with_parts(parts);
    }
    let message = Message::of_text(role, content);
    let Some(id) = given["tool_call_id"].as_str() else { return message };
    let mut calls = earlier.iter().filter_map(|message| message.parts.as_ref()).flat_map(|parts| &parts.calls);
    match calls.rfind(|call| call.id == id) {
        Some(call) => message.answering(AnsweredCall { id: id.to_owned(), name: call.name.clone() }),
        None => message,
    }
}

fn function(tool: &Json) -> Function {
    let tool = &tool["function"];
    Function {
        name: text(&tool["name"]).to_owned(),
        description: text(&tool["description"]).to_owned(),
        parameters: tool["parameters"].to_string(),
        cost: 0.0,
    }
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Json) -> &[Json] {
    value.as_array().map_or(&[], Vec::as_slice)
}
