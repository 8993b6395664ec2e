//! Replies as the template itself writes them: what stands between the prompt and the token that ends the turn.

use std::ops::Range;

use gymkhana_record::WrittenCall;

use super::ChatFormat;
use crate::encoder::Sourced;
use crate::message::{Message, Role, SpokenCall, SpokenParts};
use crate::new_reply::NewReply;
use crate::rendering::{self, Author, Rendered, ReplyForm};
use crate::thoughts::Begun;

impl ChatFormat {
    /// The tokens of a reply in the template's own form, with the token that ends the turn.
    ///
    /// `None` if the template does not write the whole reply, or writes it so that it would not be read again as it is: if
    /// the run's tool-call format is not the template's, for example.
    pub(crate) fn template_reply(&self, reply: &NewReply<'_>, begun: Begun) -> Option<Vec<u32>> {
        let call = |(number, call): (usize, &crate::NewCall<'_>)| SpokenCall {
            id: format!("call{number:05}"),
            name: call.name.to_owned(),
            arguments: call.arguments.to_owned(),
        };
        let parts = SpokenParts {
            thoughts: reply.thoughts.map(str::to_owned),
            message: reply.text.to_owned(),
            calls: reply.calls.iter().enumerate().map(call).collect(),
        };
        let question = Message::of_text(Role::User, "?");
        let spoken = Message::of_text(Role::Assistant, reply.text).with_parts(parts);
        let prompt = self.rendered(&[&question], true)?;
        let whole = self.rendered(&[&question, &spoken], false)?;
        let place = self.reply_place(&prompt, &whole, begun)?;
        let text = &whole.text[place.clone()];
        if !self.reads_as(text, reply, begun) {
            return None;
        }
        let outside: Vec<Range<usize>> = whole
            .passages
            .iter()
            .filter(|passage| place.start <= passage.range.start && passage.range.end <= place.end)
            .map(|passage| passage.range.start - place.start..passage.range.end - place.start)
            .collect();
        let mut tokens = self.encoder.tokens(Sourced::new(text, &outside)).ok()?;
        let behind = self.encoder.tokens(Sourced::new(&whole.text[place.end..], &[])).ok()?;
        tokens.extend(behind.first().filter(|token| self.stop.contains(token)).or(self.stop.first()));
        Some(tokens)
    }

    fn rendered(&self, messages: &[&Message], prompt: bool) -> Option<Rendered> {
        let tools = self.tools(&[]).ok()?;
        let setting = self.setting(prompt, ReplyForm::Parts);
        rendering::render(self.template(false), &tools, messages.iter().copied(), &setting).ok()
    }

    /// The place of the reply in the whole conversation: behind the prompt, up to the token that ends the turn.
    fn reply_place(&self, prompt: &Rendered, whole: &Rendered, begun: Begun) -> Option<Range<usize>> {
        let first = whole.passages.iter().position(|passage| matches!(passage.author, Author::Reply(_)))?;
        let end = self.end_of(whole, first, ReplyForm::Parts)?;
        let start = if whole.text.starts_with(&prompt.text) {
            prompt.text.len()
        } else {
            // The prompt opens a thought, and the template does not.
            let opened = self.thoughts.as_ref().filter(|_| begun == Begun::Yes)?;
            let mark = prompt.text.rfind(opened.open()).filter(|mark| *mark >= prompt.fixed())?;
            let written = whole.text.strip_prefix(&prompt.text[..mark])?;
            let behind = written.strip_prefix(opened.open()).map_or(written, str::trim_start);
            whole.text.len() - behind.len()
        };
        (start <= end).then_some(start..end)
    }

    /// Whether the text of a reply is read as this reply.
    fn reads_as(&self, text: &str, reply: &NewReply<'_>, begun: Begun) -> bool {
        let read = self.parse_reply(text, &[], begun);
        let same = |(read, call): (&WrittenCall, &crate::NewCall<'_>)| match read {
            WrittenCall::Sound { name, arguments } => {
                let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
                name == call.name && json(arguments).is_some() && json(arguments) == json(call.arguments)
            }
            WrittenCall::Malformed { .. } => false,
        };
        let thoughts = |text: Option<&str>| text.unwrap_or_default().trim().to_owned();
        read.message.trim() == reply.text.trim()
            && thoughts(read.thoughts.as_deref()) == thoughts(reply.thoughts)
            && read.calls.len() == reply.calls.len()
            && read.calls.iter().zip(reply.calls).all(same)
    }
}

#[cfg(test)]
mod tests {
    use crate::format::tests::{with_template, with_tokens};
    use crate::{Begun, ChatFormat, NewCall, NewReply};

    const MARKS: [&str; 8] = [
        "<think>",
        "</think>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
        "<tool_call>",
    ];

    fn chat(assistant: &str, opens: &str) -> ChatFormat {
        let template = format!(
            "{{% for m in messages %}}{{% if m.role == 'assistant' %}}<|im_start|>assistant\n{assistant}<|im_end|>\n\
             {{% else %}}<|im_start|>{{{{ m.role }}}}\n{{{{ m.content }}}}<|im_end|>\n{{% endif %}}{{% endfor %}}\
             {{% if add_generation_prompt %}}<|im_start|>assistant\n{opens}{{% endif %}}"
        );
        with_template(&with_tokens(&MARKS), &template)
    }

    fn written(chat: &ChatFormat, reply: &NewReply<'_>, begun: Begun) -> String {
        let tokens = chat.write_reply(reply, begun).unwrap();
        assert_eq!(tokens.last(), chat.stop().first());
        chat.decode_reply(&tokens).unwrap()
    }

    /// DeepSeek V3.1 writes a name and JSON with spaces; Qwen3-Coder writes an object as JSON and a flag as Python does.
    #[test]
    fn calls_have_the_form_of_the_template() {
        let deepseek = "{{ m.content }}{% if m.tool_calls %}<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}\
                        <｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>{{ c.function.arguments | tojson }}\
                        <｜tool▁call▁end｜>{% endfor %}<｜tool▁calls▁end｜>{% endif %}";
        let calls = [NewCall { name: "add", arguments: "{\"a\":1}" }];
        let reply = NewReply { calls: &calls, ..NewReply::default() };
        let expected = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
        assert_eq!(written(&chat(deepseek, ""), &reply, Begun::No), expected);
        // The run reads another format: the template's calls would be text.
        let hermes = chat(deepseek, "").with_tool_format(crate::ToolFormat::Hermes);
        assert_eq!(
            written(&hermes, &reply, Begun::No),
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":1}}\n</tool_call>"
        );
    }

    #[test]
    fn thoughts_have_the_form_of_the_template() {
        let thinking = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content | trim }}\n</think>\n\n{% endif %}{{ m.content }}";
        let reply = NewReply { thoughts: Some("why"), text: "so", calls: &[] };
        assert_eq!(written(&chat(thinking, ""), &reply, Begun::No), "<think>\nwhy\n</think>\n\nso");
        // The prompt has opened the thought, with the same white space or with other.
        assert_eq!(written(&chat(thinking, "<think>\n"), &reply, Begun::Yes), "why\n</think>\n\nso");
        assert_eq!(written(&chat(thinking, "<think>"), &reply, Begun::Yes), "\nwhy\n</think>\n\nso");
        // A template that drops thoughts does not write this reply.
        assert_eq!(written(&chat("{{ m.content }}", ""), &reply, Begun::No), "<think>\nwhy\n</think>\n\nso");
        assert_eq!(written(&chat("{{ m.content }}", "<think>\n"), &reply, Begun::Yes), "why\n</think>\n\nso");
    }

    #[test]
    fn texts_cannot_become_marks_of_the_template() {
        let chat = chat("{{ m.content }}", "");
        let tokens = chat.write_reply(&NewReply::of_text("a<|im_end|>b<think>"), Begun::No).unwrap();
        assert_eq!(tokens.iter().filter(|token| chat.stop().contains(token)).count(), 1);
    }
}
