//! Replies that the host writes for a policy: demonstrations of oracles and of data files, and a program's history.

use crate::error::ChatError;
use crate::format::ChatFormat;
use crate::message::ReplyPiece;
use crate::thoughts::{Begun, ThoughtMarks};
use crate::tool_call::{CallPiece, NewCall};

/// A reply that the host writes for a policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewReply<'a> {
    /// Thoughts apart from the text; a text may also begin with thoughts in the model's marks.
    pub thoughts: Option<&'a str>,
    /// The message.
    pub text: &'a str,
    /// The calls behind it.
    pub calls: &'a [NewCall<'a>],
}

impl<'a> NewReply<'a> {
    /// A message without thoughts and calls.
    #[must_use]
    pub fn of_text(text: &'a str) -> Self {
        Self { text, ..Self::default() }
    }
}

/// Pieces of a reply, of which no two plain ones stand side by side, so that tokens may reach over the seam.
#[derive(Default)]
struct Pieces(Vec<(bool, String)>);

impl Pieces {
    fn frame(&mut self, text: &str) {
        self.0.push((true, text.to_owned()));
    }

    fn plain(&mut self, text: &str) {
        match self.0.last_mut() {
            Some((false, before)) => before.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.push((false, text.to_owned())),
        }
    }

    fn as_reply(&self) -> Vec<ReplyPiece<'_>> {
        self.0
            .iter()
            .map(|(is_frame, text)| if *is_frame { ReplyPiece::Frame(text) } else { ReplyPiece::Plain(text) })
            .collect()
    }
}

impl ChatFormat {
    /// The tokens of a reply, as the model would have sampled it. Ends with the stop token.
    ///
    /// The template writes the reply if it can, else the run's tool-call format does. Texts, names and arguments are
    /// tokenised as plain text; the marks around thoughts and calls become the model's own tokens. `begun` tells whether the prompt has opened a thought: the reply then continues or closes it.
    ///
    /// # Errors
    /// [`ChatError::Tokenize`] or [`ChatError::Forged`] for a text that the tokenizer cannot encode.
    pub fn write_reply(&self, reply: &NewReply<'_>, begun: Begun) -> Result<Vec<u32>, ChatError> {
        // A text that begins with thoughts in the model's marks is written as it is.
        let has_thoughts = self.thoughts().is_some_and(|marks| marks.split(reply.text, Begun::No).thoughts.is_some());
        if let Some(tokens) = if has_thoughts { None } else { self.template_reply(reply, begun) } {
            return Ok(tokens);
        }
        let mut pieces = Pieces::default();
        self.say(reply, begun, &mut pieces);
        let calls = self.tool_format().write(reply.calls);
        if !calls.is_empty() && !reply.text.is_empty() {
            pieces.plain(self.tool_format().separator());
        }
        for call in &calls {
            match call {
                CallPiece::Frame(text) => pieces.frame(text),
                CallPiece::Plain(text) => pieces.plain(text),
            }
        }
        let mut tokens = self.encode_reply(&pieces.as_reply())?;
        // Some formats end a turn with calls by another token than the template's end of a message.
        let end = self.tool_format().call_end().filter(|_| !calls.is_empty()).and_then(|end| self.token(end));
        if let (Some(end), Some(last)) = (end, tokens.last_mut()) {
            *last = end;
        }
        Ok(tokens)
    }

    /// Writes the thoughts and the text of a reply.
    fn say(&self, reply: &NewReply<'_>, begun: Begun, pieces: &mut Pieces) {
        let Some(marks) = self.thoughts() else {
            reply.thoughts.into_iter().for_each(|thoughts| pieces.plain(&format!("{thoughts}\n\n")));
            return pieces.plain(reply.text);
        };
        let own = reply.thoughts.map(|thoughts| {
            format!(
                "{open}\n{}\n{close}\n\n{}",
                thoughts.trim(),
                reply.text,
                open = marks.open(),
                close = marks.close()
            )
        });
        let whole = own.as_deref().unwrap_or(reply.text);
        let split = marks.split(whole, Begun::No);
        let (thoughts, message) = whole.split_at(split.bytes);
        match begun {
            Begun::Yes if split.thoughts.is_none() => self.mark(&format!("\n{}\n\n", marks.close()), marks, pieces),
            // The prompt ends with the opening mark and the white space behind it.
            Begun::Yes => {
                let inside = thoughts.trim_start();
                self.mark(inside.strip_prefix(marks.open()).unwrap_or(inside).trim_start(), marks, pieces);
            }
            Begun::No | Begun::Unknown => self.mark(thoughts, marks, pieces),
        }
        pieces.plain(message);
    }

    /// Writes thoughts with their marks, which become tokens of the model where it has such tokens.
    fn mark(&self, text: &str, marks: &ThoughtMarks, pieces: &mut Pieces) {
        let mut rest = text;
        let next = |rest: &str| {
            let known = [marks.open(), marks.close()].into_iter().filter(|mark| self.token(mark).is_some());
            known.filter_map(|mark| Some((rest.find(mark)?, mark.len()))).min()
        };
        while let Some((place, length)) = next(rest) {
            pieces.plain(&rest[..place]);
            pieces.frame(&rest[place..place + length]);
            rest = &rest[place + length..];
        }
        pieces.plain(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::{TEMPLATE, chat, with_template, with_tokens};

    /// The text of a reply, and its tokens.
    fn written(chat: &ChatFormat, reply: &NewReply<'_>, begun: Begun) -> (String, Vec<u32>) {
        let tokens = chat.write_reply(reply, begun).unwrap();
        (chat.decode_reply(&tokens).unwrap(), tokens)
    }

    #[test]
    fn marks_of_thoughts_are_the_models_own_tokens() {
        let marks = ["<think>", "</think>"];
        let chat = with_template(&with_tokens(&marks), TEMPLATE);
        let token = |mark: &str| chat.encode_raw(mark).unwrap()[0];
        for reply in [
            NewReply::of_text("<think>\nFirst.\n</think>\n\nIt is 3."),
            NewReply { thoughts: Some("First."), text: "It is 3.", calls: &[] },
        ] {
            let (text, tokens) = written(&chat, &reply, Begun::No);
            assert_eq!(text, "<think>\nFirst.\n</think>\n\nIt is 3.");
            for mark in marks {
                assert!(tokens.contains(&token(mark)), "{mark}");
            }
            assert_eq!(written(&chat, &reply, Begun::Yes).0, "First.\n</think>\n\nIt is 3.");
        }
        // A mark inside of the message is text.
        let (_, tokens) = written(&chat, &NewReply::of_text("The tag </think> ends it."), Begun::No);
        assert!(!tokens.contains(&token("</think>")));
        // A reply without thoughts closes the thought that the prompt has opened.
        assert_eq!(written(&chat, &NewReply::of_text("3"), Begun::Yes).0, "\n</think>\n\n3");
    }

    #[test]
    fn a_model_without_tokens_for_marks_gets_them_as_text() {
        let reply = NewReply { thoughts: Some("a"), text: "b", calls: &[] };
        assert_eq!(written(&chat(), &reply, Begun::No).0, "<think>\na\n</think>\n\nb");
        assert_eq!(written(&chat().with_thoughts(None), &reply, Begun::No).0, "a\n\nb");
    }

    #[test]
    fn calls_stand_on_lines_of_their_own() {
        let calls = [NewCall { name: "f", arguments: "{}" }];
        let reply = NewReply { text: "I call.", calls: &calls, thoughts: None };
        let expected = "I call.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
        assert_eq!(written(&chat(), &reply, Begun::No).0, expected);
    }
}
