//! Tests of the forms in which templates get ids, arguments, contents, replies and answers.

use super::tests::{with_template, with_tokens};
use super::{ChatError, ChatFormat, Extension, Rendered};
use crate::{AnsweredCall, Message, Role, SpokenCall, SpokenParts};
use gymkhana_record::Function;

/// A message with its mark at the end; `content` is the expression of its text.
fn chatml(content: &str) -> String {
    format!(
        "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{{{ {content} }}}}<|im_end|>\n{{% endfor %}}\
         {{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
    )
}

/// A template that writes replies with calls, and answers, by these texts.
fn calling(call: &str, answer: &str) -> String {
    format!(
        "{{% for m in messages %}}\
         {{% if m.role == 'assistant' and m.tool_calls %}}{{% set c = m.tool_calls[0] %}}<|im_start|>assistant\n{call}\
         {{% elif m.role == 'tool' %}}{answer}\
         {{% else %}}<|im_start|>{{{{ m.role }}}}\n{{{{ m.content }}}}<|im_end|>\n{{% endif %}}\
         {{% endfor %}}{{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}{{{{ tools or '' }}}}"
    )
}

fn format(template: &str) -> ChatFormat {
    with_template(&with_tokens(&["<|call|>"]), template)
}

fn function() -> Function {
    Function { name: "f".to_owned(), description: String::new(), parameters: "{}".to_owned(), cost: 0.0 }
}

fn called(id: &str, thoughts: Option<&str>) -> SpokenParts {
    let call = SpokenCall { id: id.to_owned(), name: "add".to_owned(), arguments: "{\"x\":1}".to_owned() };
    SpokenParts { thoughts: thoughts.map(str::to_owned), message: String::new(), calls: vec![call] }
}

fn answer(id: &str, text: &str) -> Message {
    let call = AnsweredCall { id: id.to_owned(), name: "add".to_owned() };
    Message::of_text(Role::Tool, text).answering(call)
}

/// A question, a reply with a call that has no tokens, and its answer.
fn conversation(id: &str) -> [Message; 3] {
    let reply = Message::of_text(Role::Assistant, "").with_parts(called(id, None));
    [Message::of_text(Role::User, "?"), reply, answer(id, "four")]
}

fn text(chat: &ChatFormat, messages: &[Message], functions: &[Function]) -> Result<String, ChatError> {
    Ok(chat.extend(&Rendered::default(), messages, functions, false)?.1.text().to_owned())
}

#[test]
fn contents_are_lists_where_texts_are_not_shown() {
    let messages = [Message::of_text(Role::User, "Hello")];
    let listed = format(&chatml("m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join"));
    assert!(listed.report().lists_contents);
    assert_eq!(text(&listed, &messages, &[]).unwrap(), "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    let plain = format(&chatml("m.content"));
    assert!(!plain.report().lists_contents);
    assert_eq!(text(&plain, &messages, &[]).unwrap(), text(&listed, &messages, &[]).unwrap());
}

#[test]
fn a_template_for_tool_use_alone_is_accepted() {
    let chat =
        format(&format!("{{% for tool in tools %}}{{{{ tool.function.name }}}}{{% endfor %}}{}", chatml("m.content")));
    let messages = [Message::of_text(Role::System, "S"), Message::of_text(Role::User, "?")];
    assert!(text(&chat, &messages, &[function()]).unwrap().starts_with("f<|im_start|>system\nS"));
    let refused = text(&chat, &messages, &[]).unwrap_err();
    assert!(matches!(refused, ChatError::Template(_)), "{refused}");
}

#[test]
fn arguments_are_text_where_the_template_joins_them() {
    let answer = "<|im_start|>tool\n{{ m.content }}<|im_end|>\n";
    let joined = format(&calling("{{ 'call ' + c.function.name + c.function.arguments }}<|im_end|>\n", answer));
    assert!(joined.report().text_arguments);
    assert!(text(&joined, &conversation("1"), &[]).unwrap().contains("call add{\"x\":1}<|im_end|>"));
    let written = format(&calling("{{ c.function.name }}{{ c.function.arguments | tojson }}<|im_end|>\n", answer));
    assert!(!written.report().text_arguments);
    assert!(text(&written, &conversation("1"), &[]).unwrap().contains("add{\"x\": 1}<|im_end|>"));
}

#[test]
fn ids_are_changed_for_templates_that_refuse_them_alone() {
    let (call, answer) =
        ("{{ c.function.name }}<|im_end|>\n", "<|im_start|>tool\n{{ m.tool_call_id }}={{ m.content }}<|im_end|>\n");
    let any = format(&calling(call, answer));
    assert!(text(&any, &conversation("call_7-b"), &[]).unwrap().contains("call_7-b=four"));
    let strict = format!("{{% if m.tool_call_id | length != 9 %}}{{{{ raise_exception('id') }}}}{{% endif %}}{answer}");
    let strict = format(&calling(call, &strict));
    let changed = text(&strict, &conversation("call_7-b"), &[]).unwrap();
    assert!(!changed.contains("call_7-b") && changed.contains("=four"), "{changed}");
    assert!(text(&strict, &conversation("abcdefgh1"), &[]).unwrap().contains("abcdefgh1=four"));
}

#[test]
fn a_context_grows_behind_a_call_whose_name_begins_the_answer() {
    // As GPT-OSS and Gemma 4 do, the template takes the name of an answer from the call.
    let call = "{% set ns.name = c.function.name %}{{ c.function.name }}{{ c.function.arguments | tojson }}<|call|>";
    let answer = "<|im_start|>functions.{{ ns.name }}\n{{ m.content }}<|im_end|>\n";
    let template = format!("{{% set ns = namespace(name='') %}}{}", calling(call, answer));
    let (tokenizer, config) = (with_tokens(&["<|call|>"]), super::tests::CONFIG.to_owned());
    let files = super::ChatFiles { tokenizer, config, template: Some(template), ends: vec![] };
    let end = format(&chatml("m.content")).encoder.mark("<|call|>").unwrap();
    let chat = ChatFormat::new(&super::ChatFiles { ends: vec![end], ..files }).unwrap();
    let user = Message::of_text(Role::User, "?");
    let (_, before) = chat.extend(&Rendered::default(), [&user], &[], false).unwrap();
    let reply = Message::reply("add{}", chat.encode_plain("add{}").unwrap()).with_parts(called("1", None));
    let messages = [user, reply, self::answer("1", "four")];
    let (extension, _) = chat.extend(&before, &messages, &[], true).unwrap();
    let Extension::Append(tokens) = extension else { panic!("the context began again") };
    assert_eq!(chat.decode(&tokens).unwrap(), "<|im_start|>functions.add\nfour<|im_end|>\n<|im_start|>assistant\n");
}

#[test]
fn a_reply_without_tokens_keeps_its_thoughts_beside_its_call() {
    let call = "{{ m.reasoning_content }}|{{ m.thinking }}|{{ c.id }}{{ c.function.name }}<|im_end|>\n";
    let chat = format(&calling(call, "<|im_start|>tool {{ m.tool_call_id }}\n{{ m.content }}<|im_end|>\n"));
    let mut messages = conversation("1");
    messages[1] = Message::of_text(Role::Assistant, "").with_parts(called("1", Some("why")));
    assert!(text(&chat, &messages, &[]).unwrap().contains("why|why|1add<|im_end|>"));
}

#[test]
fn answers_are_one_message_where_roles_must_alternate() {
    let alternating = "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('order') }}{% endif %}";
    let chat = format(
        &chatml("m.content").replace("%}<|im_start|>{{ m.role", &format!("%}}{alternating}<|im_start|>{{{{ m.role")),
    );
    let [user, reply, first] = conversation("1");
    let messages = [user, reply, first, answer("2", "five")];
    let rendered = text(&chat, &messages, &[]).unwrap();
    let joined = "<tool_response>\nfour\n</tool_response>\n<tool_response>\nfive\n</tool_response><|im_end|>";
    assert!(rendered.contains(joined), "{rendered}");
}

#[test]
fn messages_as_given_are_not_moved() {
    let without_system = chatml("m.content").replace("messages %}", "messages if m.role != 'system' %}");
    let messages = [Message::of_text(Role::System, "rules"), Message::of_text(Role::User, "?")];
    assert!(text(&format(&without_system), &messages, &[]).unwrap().contains("rules"));
    let given = format(&without_system).with_messages_as_given();
    assert!(!text(&given, &messages, &[]).unwrap().contains("rules"));
}

#[test]
fn templates_get_the_named_tokens_and_documents_of_transformers() {
    let chat = format(&format!("{{{{ pad_token }}}}{{{{ documents is none }}}}\n{}", chatml("m.content")));
    let rendered = text(&chat, &[Message::of_text(Role::User, "?")], &[]).unwrap();
    assert!(rendered.starts_with("<|endoftext|>True\n"), "{rendered}");
}
