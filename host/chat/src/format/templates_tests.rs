//! Conversations under small templates, with the texts that transformers renders.

use gymkhana_record::Function;
use serde_json::json;

use super::tests::{TEMPLATE, with_template, with_tokens};
use super::*;
use crate::thoughts::Begun;
use crate::{AnsweredCall, Message, NewReply, ReplyPiece, Role, SpokenCall, SpokenParts};

const HEAD: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n";
const TAIL: &str = "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n";

fn chat(template: &str) -> ChatFormat {
    with_template(&with_tokens(&["<think>", "</think>", "<tool_call>", "</tool_call>"]), template)
}

fn messages(of: &[(Role, &str)]) -> Vec<Message> {
    of.iter().map(|(role, text)| Message::of_text(*role, *text)).collect()
}

fn function() -> Function {
    let parameters = "{\"type\": \"object\", \"properties\": {}}".to_owned();
    Function { name: "put".to_owned(), description: "Stores.".to_owned(), parameters, cost: 0.0 }
}

/// The text of a prompt.
fn prompt(chat: &ChatFormat, messages: &[Message], functions: &[Function]) -> String {
    let (extension, _) = chat.extend(&Rendered::default(), messages, functions, false).unwrap();
    let (Extension::Append(tokens) | Extension::Restart(tokens)) = extension;
    chat.decode(&tokens).unwrap()
}

/// The text of a context of two turns, and the number of its segments.
fn two_turns(chat: &ChatFormat, reply: &str) -> (String, usize) {
    let mut said = messages(&[(Role::User, "q")]);
    let (first, rendered) = chat.extend(&Rendered::default(), &said, &[], false).unwrap();
    let (Extension::Append(mut tokens) | Extension::Restart(mut tokens)) = first;
    let spoken = chat.encode_reply(&[ReplyPiece::Frame(reply)]).unwrap();
    tokens.extend(&spoken);
    let parts = chat.parse_reply(reply, &[], rendered.begun());
    let parts = SpokenParts { thoughts: parts.thoughts, message: parts.message, calls: vec![] };
    said.push(Message::reply(reply, spoken[..spoken.len() - 1].to_vec()).with_parts(parts));
    said.push(Message::of_text(Role::User, "r"));
    match chat.extend(&rendered, &said, &[], true).unwrap().0 {
        Extension::Append(more) => (chat.decode(&[tokens, more].concat()).unwrap(), 1),
        Extension::Restart(whole) => (chat.decode(&whole).unwrap(), 2),
    }
}

#[test]
fn templates_see_the_texts() {
    for (body, message, expected) in [
        ("{{ m.content | trim }}", (Role::User, "\n board \n"), "board"),
        ("{{ m.content | tojson }}", (Role::Tool, "{\"a\": \"b\"}"), "\"{\\\"a\\\": \\\"b\\\"}\""),
        ("{% if m.content %}{{ m.content }}{% else %}nothing{% endif %}", (Role::System, ""), "nothing"),
        ("{{ m.content | length }}", (Role::User, "abcdef"), "6"),
        ("{{ m.content.split('</t>')[-1] }}", (Role::User, "a</t>b"), "b"),
        ("{{ m.tool_calls | length }}", (Role::User, "a"), "0"),
        ("{% generation %}{{ m.content }}{% endgeneration %}", (Role::User, "a"), "a"),
        ("{{ ['string', 'null'] }}", (Role::User, "a"), "['string', 'null']"),
        ("{{ {'b': 1, 'a': m.content} | tojson(sort_keys=true) }}", (Role::User, "x"), "{\"a\": \"x\", \"b\": 1}"),
        ("{{ 'a-b'.removeprefix('a-') }}", (Role::User, "a"), "b"),
        ("{{ '%s-%d' % ('a', 1) }}", (Role::User, "a"), "a-1"),
    ] {
        // Other messages are written plainly, so that the probes see what they ask for.
        let template = format!(
            "{HEAD}{{% if m.role == '{0}' %}}{body}{{% else %}}{{{{ m.content }}}}{{% endif %}}{TAIL}{{% endif %}}",
            message.0
        );
        let text = prompt(&chat(&template), &messages(&[message]), &[]);
        assert_eq!(text, format!("<|im_start|>{}\n{expected}<|im_end|>\n<|im_start|>assistant\n", message.0), "{body}");
    }
}

#[test]
fn a_thought_that_the_prompt_opens_stays_in_the_context() {
    let opens = format!("{HEAD}{{{{ m.content }}}}{TAIL}<think>\n{{% endif %}}");
    let expected = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\na\n</think>\n\nb<|im_end|>\n\
                    <|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n<think>\n";
    assert_eq!(two_turns(&chat(&opens), "a\n</think>\n\nb"), (expected.to_owned(), 1));
    // The template writes thoughts of its own into the history.
    let writes = format!(
        "{HEAD}{{% if m.role == 'assistant' %}}<think>\n{{{{ m.reasoning_content or '' }}}}\n</think>\n\n{{% endif %}}\
         {{{{ m.content }}}}{TAIL}<think>\n{{% endif %}}"
    );
    assert_eq!(two_turns(&chat(&writes), "a\n</think>\n\nb"), (expected.to_owned(), 1));
}

#[test]
fn a_mark_in_the_history_alone_is_left_out() {
    let template = format!(
        "{HEAD}{{% if m.role == 'assistant' and '</think>' not in m.content %}}<think></think>{{% endif %}}\
         {{{{ m.content }}}}{TAIL}{{% endif %}}"
    );
    let (text, segments) = two_turns(&chat(&template), "<think>a</think>b");
    assert!(text.contains("assistant\n<think>a</think>b<|im_end|>\n"), "{text}");
    assert_eq!(segments, 1);
}

/// The template of Qwen3 in short: thoughts of earlier questions are dropped.
#[test]
fn the_template_may_decide_about_earlier_thoughts() {
    let template = format!(
        "{HEAD}{{% if m.role == 'assistant' and m.reasoning_content and loop.last %}}<think>\n{{{{ m.reasoning_content }}}}\
         \n</think>\n\n{{% endif %}}{{{{ m.content }}}}{TAIL}{{% endif %}}"
    );
    let reply = "<think>\na\n</think>\n\nb";
    let (kept, segments) = two_turns(&chat(&template), reply);
    assert!(kept.contains("a\n</think>\n\nb") && segments == 1, "{kept}");
    let mut chat = chat(&template);
    chat.set_earlier_thoughts(EarlierThoughts::Template);
    let (dropped, segments) = two_turns(&chat, reply);
    assert!(dropped.contains("assistant\nb<|im_end|>") && segments == 2, "{dropped}");
    // A template that keeps them continues the context with the sampled tokens.
    let mut keeps = self::chat(&template.replace(" and loop.last", ""));
    keeps.set_earlier_thoughts(EarlierThoughts::Template);
    let (kept, segments) = two_turns(&keeps, reply);
    assert!(kept.contains("a\n</think>\n\nb") && segments == 1, "{kept}");
}

#[test]
fn switches_reach_the_template() {
    let template = format!(
        "{HEAD}{{{{ m.content }}}}{TAIL}{{% if enable_thinking is false %}}<think>\n\n</think>\n\n{{% endif %}}{{% endif %}}"
    );
    let switches = json!({"enable_thinking": false, "unknown": 1}).as_object().unwrap().clone();
    let said = messages(&[(Role::User, "q")]);
    assert!(prompt(&chat(&template), &said, &[]).ends_with("assistant\n"));
    let chat = chat(&template).with_switches(switches);
    assert!(prompt(&chat, &said, &[]).ends_with("assistant\n<think>\n\n</think>\n\n"));
    assert_eq!(chat.report().unread_switches, ["unknown"]);
    let (_, rendered) = chat.extend(&Rendered::default(), &said, &[], false).unwrap();
    assert_eq!(rendered.begun(), Begun::No);
}

#[test]
fn a_list_of_templates_has_one_for_functions() {
    let named = |text: &str| format!("{HEAD}{text}{{{{ m.content }}}}{TAIL}{{% endif %}}");
    let list = json!({"eos_token": "<|im_end|>", "chat_template": [
        {"name": "default", "template": named("plain ")},
        {"name": "tool_use", "template": format!("{{% for t in tools %}}{{{{ t.function.name }}}}{{% endfor %}}{}", named("tools "))},
    ]});
    let tokenizer = with_tokens(&[]);
    let files = ChatFiles { tokenizer, config: list.to_string(), ..ChatFiles::default() };
    let chat = || ChatFormat::new(&files).unwrap();
    let said = messages(&[(Role::User, "q")]);
    assert!(prompt(&chat(), &said, &[]).contains("plain q"));
    assert!(prompt(&chat(), &said, &[function()]).starts_with("put<|im_start|>user\ntools q"));
    let chosen = chat().with_template_named("default").unwrap();
    assert!(prompt(&chosen, &said, &[function()]).contains("plain q"));
    let error = chat().with_template_named("other").err().unwrap().to_string();
    assert!(error.contains("`other`") && error.contains("`default`, `tool_use`"), "{error}");
}

#[test]
fn answers_name_their_calls() {
    let template = format!(
        "{HEAD}{{% if m.role == 'tool' and not m.tool_call_id %}}{{{{ raise_exception('no id') }}}}{{% endif %}}\
         {{% if m.role == 'tool' %}}{{{{ m.name }}}}: {{% endif %}}{{{{ m.content }}}}{TAIL}{{% endif %}}"
    );
    let chat = chat(&template);
    let call = SpokenCall { id: "call-0".to_owned(), name: "put".to_owned(), arguments: "{}".to_owned() };
    let answered = AnsweredCall { id: call.id.clone(), name: call.name.clone() };
    let parts = SpokenParts { calls: vec![call], ..SpokenParts::default() };
    let said = [
        Message::of_text(Role::User, "q"),
        Message::reply("called", vec![1]).with_parts(parts),
        Message::of_text(Role::Tool, "done").answering(answered),
    ];
    assert!(prompt(&chat, &said, &[]).contains("tool\nput: done<|im_end|>"));
}

/// A template that refuses an answer unless the reply before it has calls, as that of gpt-oss.
#[test]
fn a_template_that_wants_calls_gets_them() {
    let template = format!(
        "{HEAD}{{% if m.role == 'tool' and not messages[loop.index0 - 1].tool_calls %}}{{{{ raise_exception('no call') }}}}{{% endif %}}\
         {{% for c in m.tool_calls %}}<tool_call>{{{{ c.function.name }}}} {{{{ c.function.arguments | tojson }}}}</tool_call>{{% endfor %}}\
         {{{{ m.content }}}}{TAIL}{{% endif %}}"
    );
    let chat = chat(&template);
    let mut said = messages(&[(Role::User, "q")]);
    let (_, rendered) = chat.extend(&Rendered::default(), &said, &[], false).unwrap();
    let call = SpokenCall { id: "call-0".to_owned(), name: "put".to_owned(), arguments: "{\"a\": 1}".to_owned() };
    let answered = AnsweredCall { id: call.id.clone(), name: call.name.clone() };
    let parts = SpokenParts { calls: vec![call], ..SpokenParts::default() };
    // The sampled text differs from what the template would write.
    said.push(Message::reply("<tool_call>sampled</tool_call>", vec![1, 2]).with_parts(parts));
    said.push(Message::of_text(Role::Tool, "done").answering(answered));
    let Extension::Append(more) = chat.extend(&rendered, &said, &[], true).unwrap().0 else { panic!("a new segment") };
    let text = chat.decode(&more).unwrap();
    assert_eq!(text, "\n<|im_start|>tool\ndone<|im_end|>\n<|im_start|>assistant\n");
}

#[test]
fn what_a_template_leaves_out_is_told_elsewhere() {
    // No functions, no instructions, no messages of tools.
    let template = "{% for m in messages if m.role in ['user', 'assistant'] %}<|im_start|>{{ m.role }}\n{{ m.content }}\
                    <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let chat = chat(template);
    let report = chat.report();
    assert!(report.tells_tools && report.folds_system && report.folds_results, "{report:?}");
    let said = [
        Message::of_text(Role::System, "Be kind."),
        Message::of_text(Role::User, "q"),
        Message::reply("called", vec![1]),
        Message::of_text(Role::Tool, "done"),
    ];
    let text = prompt(&chat, &said, &[function()]);
    assert!(text.starts_with("<|im_start|>user\nBe kind.\n\nYou can call these functions:\n"), "{text}");
    let tool = "{\"type\": \"function\", \"function\": {\"name\": \"put\", \"description\": \"Stores.\", \"parameters\": \
                {\"type\": \"object\", \"properties\": {}}}}";
    assert!(text.contains(tool) && text.contains("<tool_call>\n{\"name\": \"NAME\""), "{text}");
    assert!(text.contains("\n\nq<|im_end|>"), "{text}");
    assert!(text.contains("user\n<tool_response>\ndone\n</tool_response><|im_end|>"), "{text}");
    // The run may leave the functions out, or tell them although the template lists them.
    let without = chat.with_tools_place(ToolsPlace::Template);
    assert!(!prompt(&without, &said, &[function()]).contains("put"));
    let told = with_template(&with_tokens(&[]), TEMPLATE).with_tools_place(ToolsPlace::System);
    assert!(prompt(&told, &said[1..2], &[function()]).contains("You can call these functions:"));
}

#[test]
fn all_end_tokens_of_a_model_end_a_reply() {
    let configs = ["{\"eos_token_id\": [256, 23]}", "{\"eos_token_id\": 5}", "not JSON", "{}"];
    assert_eq!(ChatFiles::end_tokens(configs), [256, 23, 5]);
    let files = ChatFiles {
        tokenizer: with_tokens(&[]),
        config: "{}".to_owned(),
        template: Some(TEMPLATE.to_owned()),
        ends: vec![23],
    };
    let chat = ChatFormat::new(&files).unwrap();
    assert!(chat.stop().contains(&23) && chat.stop()[0] != 23, "{:?}", chat.stop());
    let mut reply = chat.write_reply(&NewReply::of_text("ab"), Begun::No).unwrap();
    let text = chat.decode_reply(&reply).unwrap();
    *reply.last_mut().unwrap() = 23;
    assert_eq!(chat.decode_reply(&reply).unwrap(), text);
}
