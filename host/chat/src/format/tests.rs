//! Tests of the chat format that concern tool-call formats, stop tokens and malformed functions.

use serde_json::Value as Json;

use std::ops::Range;

use super::*;
use crate::new_reply::NewReply;
use crate::thoughts::Begun;
use crate::tool_call::NewCall;
use crate::{Message, Role};

const TOKENIZER: &str = include_str!("../../../../tests/golden/chat/tokenizer.json");
pub(crate) const CONFIG: &str = include_str!("../../../../tests/golden/chat/tokenizer_config.json");
pub(crate) const TEMPLATE: &str = include_str!("../../../../tests/golden/chat/chat_template.jinja");

/// The tests' tokenizer with another template.
pub(crate) fn with_template(tokenizer: &str, template: &str) -> ChatFormat {
    let files = ChatFiles {
        tokenizer: tokenizer.to_owned(),
        config: CONFIG.to_owned(),
        template: Some(template.to_owned()),
        ends: vec![],
    };
    ChatFormat::new(&files).unwrap()
}

pub(crate) fn chat() -> ChatFormat {
    with_template(TOKENIZER, TEMPLATE)
}

/// The tests' tokenizer with further control tokens.
pub(crate) fn with_tokens(texts: &[&str]) -> String {
    let mut tokenizer: Json = serde_json::from_str(TOKENIZER).unwrap();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    let next = added.iter().filter_map(|token| token["id"].as_u64()).max().unwrap() + 1;
    for (id, text) in (next..).zip(texts) {
        let mut token = added[0].clone();
        (token["id"], token["content"]) = (id.into(), (*text).into());
        added.push(token);
    }
    tokenizer.to_string()
}

fn function(parameters: &str) -> Function {
    Function { name: "f".to_owned(), description: String::new(), parameters: parameters.to_owned(), cost: 0.0 }
}

fn prompt(chat: &ChatFormat, functions: &[Function]) -> Result<Vec<u32>, ChatError> {
    let messages = [Message::of_text(Role::User, "?")];
    let (extension, _) = chat.extend(&Rendered::default(), &messages, functions, false)?;
    let (Extension::Append(tokens) | Extension::Restart(tokens)) = extension;
    Ok(tokens)
}

#[test]
fn a_function_with_a_malformed_schema_is_an_error_that_names_it() {
    let error = prompt(&chat(), &[function("{\"type\": ")]).unwrap_err();
    assert!(matches!(&error, ChatError::Schema { function, .. } if function == "f"), "{error}");
    assert!(error.to_string().contains("function `f`"), "{error}");
    prompt(&chat(), &[function("{}")]).unwrap();
}

#[test]
fn the_tool_format_is_detected_and_can_be_replaced() {
    assert_eq!(chat().tool_format(), ToolFormat::Hermes);
    let mistral = format!("{{# [TOOL_CALLS] #}}{TEMPLATE}");
    let chat = with_template(TOKENIZER, &mistral);
    assert_eq!(chat.tool_format(), ToolFormat::Mistral);
    let text = "```json\n{\"name\": \"f\", \"arguments\": {}}\n```";
    assert_eq!(chat.parse_reply(text, &[], Begun::No).calls, []);
    assert_eq!(chat.with_tool_format(ToolFormat::FencedJson).parse_reply(text, &[], Begun::No).calls.len(), 1);
}

#[test]
fn an_end_of_message_token_ends_a_turn_of_llama_alone() {
    let tokenizer = with_tokens(&["<|eom_id|>", "<|python_tag|>"]);
    let hermes = with_template(&tokenizer, TEMPLATE);
    let llama = with_template(&tokenizer, &format!("{{# <|python_tag|> #}}{TEMPLATE}"));
    assert_eq!(llama.tool_format(), ToolFormat::Llama3Json);
    let end = llama.encoder.mark("<|eom_id|>").unwrap();
    assert!(llama.stop().contains(&end));
    assert!(!hermes.stop().contains(&end));
    assert_eq!(llama.stop().first(), hermes.stop().first());
    // Another format gives the token up.
    assert_eq!(llama.with_tool_format(ToolFormat::Hermes).stop(), hermes.stop());
}

#[test]
fn calls_of_harmony_end_with_their_own_token() {
    let tokens = ["<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"];
    let chat = with_template(&with_tokens(&tokens), TEMPLATE).with_tool_format(ToolFormat::Harmony);
    let calls = [NewCall { name: "f", arguments: "{}" }];
    let written = chat.write_reply(&NewReply { calls: &calls, ..NewReply::default() }, Begun::No).unwrap();
    assert_eq!(written.last().copied(), chat.encoder.mark("<|call|>"));
    let text = chat.decode_reply(&written).unwrap();
    assert_eq!(text, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}");
    assert_eq!(chat.parse_reply(&text, &[], Begun::No).calls.len(), 1);
}

#[test]
fn control_tokens_of_calls_are_in_the_text_of_a_reply() {
    let chat = with_template(&with_tokens(&["[TOOL_CALLS]"]), &format!("{{# [TOOL_CALLS] #}}{TEMPLATE}"));
    let calls = [NewCall { name: "f", arguments: "{\"x\": \"[TOOL_CALLS]\"}" }];
    let tokens = chat.write_reply(&NewReply { calls: &calls, ..NewReply::default() }, Begun::No).unwrap();
    let mark = chat.encoder.mark("[TOOL_CALLS]").unwrap();
    // The format's own mark is the control token; the argument's text is not.
    assert_eq!(tokens.iter().filter(|token| **token == mark).count(), 1);
    assert_eq!(tokens.last(), chat.stop().first());
    let text = chat.decode_reply(&tokens).unwrap();
    assert_eq!(text, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"x\": \"[TOOL_CALLS]\"}}]");
    let reply = chat.parse_reply(&text, &[], Begun::No);
    assert!(matches!(&reply.calls[..], [gymkhana_record::WrittenCall::Sound { name, .. }] if name == "f"), "{reply:?}");
}

#[test]
fn hermes_calls_have_the_tokens_of_their_pieces() {
    let calls = [NewCall { name: "a", arguments: "{\"x\":1}" }, NewCall { name: "b\"", arguments: "{}" }];
    let pieces = [
        ReplyPiece::Frame("<tool_call>\n"),
        ReplyPiece::Plain("{\"name\": \"a\", \"arguments\": {\"x\":1}}"),
        ReplyPiece::Frame("\n</tool_call>"),
        ReplyPiece::Frame("\n"),
        ReplyPiece::Frame("<tool_call>\n"),
        ReplyPiece::Plain("{\"name\": \"b\\\"\", \"arguments\": {}}"),
        ReplyPiece::Frame("\n</tool_call>"),
    ];
    assert_eq!(
        chat().write_reply(&NewReply { calls: &calls, ..NewReply::default() }, Begun::No).unwrap(),
        chat().encode_reply(&pieces).unwrap()
    );
}

#[test]
fn templates_may_indent_json() {
    let list = "{% if tools %}{{ tools[0].function.parameters | tojson(indent=4) }}{% endif %}";
    let chat = with_template(TOKENIZER, &format!("{list}{TEMPLATE}"));
    let text = chat.decode(&prompt(&chat, &[function("{\"a\": [1, {}], \"b\": \"é\"}")]).unwrap()).unwrap();
    let python = "{\n    \"a\": [\n        1,\n        {}\n    ],\n    \"b\": \"é\"\n}";
    assert!(text.starts_with(python), "{text}");
}

#[test]
fn templates_may_test_and_call_as_in_python() {
    let own = "{% if tools is iterable and tools | length > 0 %}tools{% endif %}{{ strftime_now('%d %b %Y') }}\
               {% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}";
    let chat = with_template(TOKENIZER, &format!("{own}{TEMPLATE}"));
    let text = |functions: &[Function]| chat.decode(&prompt(&chat, functions).unwrap()).unwrap();
    assert!(text(&[]).starts_with("26 Jul 20241"), "{}", text(&[]));
    assert!(text(&[function("{}")]).starts_with("tools26 Jul 20241"));
}

/// The error of a model whose template begins with `own`.
fn refused(own: &str) -> Option<String> {
    let template = Some(format!("{own}{TEMPLATE}"));
    let files = ChatFiles { tokenizer: TOKENIZER.to_owned(), config: CONFIG.to_owned(), template, ends: vec![] };
    match ChatFormat::new(&files) {
        Ok(_) => None,
        Err(ChatError::TemplateLimit { excess }) => Some(excess),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn templates_have_limits_of_steps_and_bytes() {
    let loops = |outer: u32, inner: u32| {
        format!(
            "{{% for a in range({outer}) %}}{{% for b in range({inner}) %}}{{% endfor %}}{{% endfor %}}\
             {{% macro m() %}}{{% for a in range({inner}) %}}{{% endfor %}}{{% endmacro %}}\
             {{% for a in range({outer}) %}}{{% set c = m() %}}{{% endfor %}}"
        )
    };
    assert!(refused(&loops(100_000, 100_000)).is_some_and(|excess| excess.contains("10000000 steps")));
    assert_eq!(refused(&loops(100, 1000)), None);
    let text = |times: u32| format!("{{% for a in range({times}) %}}{{{{ 'x' * 100000 }}}}{{% endfor %}}");
    assert!(refused(&text(1000)).is_some_and(|excess| excess.contains("8388608 bytes")));
    assert_eq!(refused(&text(2)), None);
    assert!(refused(&format!("{{# {} #}}", "x".repeat(1 << 20))).is_some_and(|excess| excess.contains("more than")));
}

/// Texts that equal words of the template are found at their own places.
#[test]
fn observed_texts_are_told_from_the_template() {
    let chat = chat();
    let texts = ["user", "system", "assistant", "tool", "<|im_end|>\n"];
    let mut messages = vec![Message::of_text(Role::System, "user"), Message::of_text(Role::User, texts[0])];
    let first = chat.extend_observed(&Rendered::default(), &messages, &[function("{}")], false).unwrap();
    let reply = chat.encode_reply(&[ReplyPiece::Plain("user")]).unwrap();
    messages.push(Message::reply("user", reply[..reply.len() - 1].to_vec()));
    messages.extend(texts[1..].iter().map(|text| Message::of_text(Role::Tool, *text)));
    let then = chat.extend_observed(&first.rendered, &messages, &[function("{}")], true).unwrap();
    let read = |observed: &Observed| {
        let (Extension::Append(tokens) | Extension::Restart(tokens)) = &observed.extension;
        let text = |place: &Range<usize>| chat.decode(&tokens[place.clone()]).unwrap();
        (observed.observed.iter().map(text).collect::<Vec<_>>(), chat.decode(tokens).unwrap())
    };
    let (found, whole) = read(&first);
    assert_eq!(found, texts[..1]);
    // The place is that of the message, behind the role of the same name.
    let (Extension::Append(tokens) | Extension::Restart(tokens)) = &first.extension;
    let before = chat.decode(&tokens[..first.observed[0].start]).unwrap();
    assert!(before.ends_with("user\n") && whole.starts_with(&before), "{before}");
    let (found, _) = read(&then);
    assert_eq!(found, texts[1..]);
    assert!(matches!(then.extension, Extension::Append(_)));
}
