//! Conversations in a form that the template shows.
//!
//! A template may leave out functions, instructions or the answers of tools, or refuse them. They are then told in the
//! messages that it shows.

use std::borrow::Cow;

use gymkhana_record::Function;
use serde_json::json;

use super::probe::ResultForm;
use super::{ChatFormat, ToolsPlace};
use crate::error::ChatError;
use crate::message::{Message, Role};
use crate::new_reply::NewReply;
use crate::python_json::python_json;
use crate::rendering::ReplyForm;
use crate::thoughts::Begun;
use crate::tool_call::{CallPiece, NewCall};

/// Messages and functions as the template takes them.
pub(super) struct Adapted<'m, 'f> {
    pub messages: Vec<Cow<'m, Message>>,
    pub functions: &'f [Function],
}

impl ChatFormat {
    /// The conversation in a form that the template shows.
    ///
    /// # Errors
    /// [`ChatError::Schema`] for a function with malformed parameters.
    pub(super) fn adapted<'m, 'f>(
        &self,
        messages: impl IntoIterator<Item = &'m Message>,
        functions: &'f [Function],
    ) -> Result<Adapted<'m, 'f>, ChatError> {
        let mut adapted = Adapted { messages: messages.into_iter().map(Cow::Borrowed).collect(), functions };
        if self.as_given {
            return Ok(adapted);
        }
        if !functions.is_empty() && self.tells_tools() {
            adapted.instruct(&self.tools_text(functions)?);
            adapted.functions = &[];
        }
        if !self.shown.system {
            adapted.fold_instructions();
        }
        if self.shown.alternates && self.shown.results == ResultForm::User {
            adapted.join_answers();
        }
        for message in &mut adapted.messages {
            match message.role {
                // A template that wants the calls of replies refuses an answer without one.
                Role::Tool if self.shown.results == ResultForm::User => as_user(message),
                Role::Tool if self.shown.replies == ReplyForm::Calls && message.answers.is_none() => as_user(message),
                Role::Assistant if !self.shown.calls && message.tokens.is_empty() => self.write_calls(message)?,
                _ => {}
            }
        }
        Ok(adapted)
    }

    /// Writes the calls of a reply without tokens in the run's format, because the template does not.
    fn write_calls(&self, message: &mut Cow<'_, Message>) -> Result<(), ChatError> {
        let Some(parts) = message.parts.as_ref().filter(|parts| !parts.calls.is_empty()) else { return Ok(()) };
        let calls: Vec<NewCall<'_>> =
            parts.calls.iter().map(|call| NewCall { name: &call.name, arguments: &call.arguments }).collect();
        let reply = NewReply { thoughts: parts.thoughts.as_deref(), text: &parts.message, calls: &calls };
        let mut tokens = self.write_reply(&reply, Begun::No)?;
        // The template writes the stop token.
        tokens.pop();
        *message = Cow::Owned(Message::reply(message.text.clone(), tokens));
        Ok(())
    }

    /// Whether functions are told in the system message.
    pub(super) fn tells_tools(&self) -> bool {
        match self.tools_place {
            ToolsPlace::Auto => !self.shown.tools,
            ToolsPlace::Template => false,
            ToolsPlace::System => true,
        }
    }

    /// The text by which a system message lists functions:
    ///
    /// ```text
    /// You can call these functions:
    /// {"type": "function", "function": {"name": …, "description": …, "parameters": …}}
    /// …
    ///
    /// To call a function, write its name and its arguments in this form:
    /// (a call of the function NAME in the run's format)
    /// ```
    fn tools_text(&self, functions: &[Function]) -> Result<String, ChatError> {
        let mut text = "You can call these functions:\n".to_owned();
        for Function { name, description, parameters, .. } in functions {
            let parameters: serde_json::Value = serde_json::from_str(parameters)
                .map_err(|error| ChatError::Schema { function: name.clone(), reason: error.to_string() })?;
            let function = json!({"name": name, "description": description, "parameters": parameters});
            if let serde_json::Value::Object(tool) = json!({"type": "function", "function": function}) {
                text.push_str(&python_json(&tool));
                text.push('\n');
            }
        }
        text.push_str("\nTo call a function, write its name and its arguments in this form:\n");
        for piece in self.tool_format.write(&[NewCall { name: "NAME", arguments: "{\"ARGUMENT\": \"VALUE\"}" }]) {
            let (CallPiece::Frame(piece) | CallPiece::Plain(piece)) = piece;
            text.push_str(&piece);
        }
        Ok(text)
    }
}

impl Adapted<'_, '_> {
    /// Adds a text to the instructions.
    fn instruct(&mut self, text: &str) {
        match self.messages.first_mut() {
            Some(system) if system.role == Role::System => {
                let system = system.to_mut();
                system.text = format!("{}\n\n{text}", system.text);
            }
            _ => self.messages.insert(0, Cow::Owned(Message::of_text(Role::System, text))),
        }
    }

    /// Joins neighbouring answers, which become one message of the user.
    fn join_answers(&mut self) {
        let mut joined: Vec<Cow<'_, Message>> = Vec::with_capacity(self.messages.len());
        for message in self.messages.drain(..) {
            match joined.last_mut() {
                Some(last) if last.role == Role::Tool && message.role == Role::Tool => {
                    let last = last.to_mut();
                    last.text = format!("{}{BETWEEN_ANSWERS}{}", last.text, message.text);
                }
                _ => joined.push(message),
            }
        }
        self.messages = joined;
    }

    /// Moves instructions into the next message of the user.
    fn fold_instructions(&mut self) {
        let mut instructions = String::new();
        let mut kept: Vec<Cow<'_, Message>> = Vec::with_capacity(self.messages.len());
        for mut message in self.messages.drain(..) {
            match message.role {
                Role::System if instructions.is_empty() => instructions.clone_from(&message.text),
                Role::System => instructions = format!("{instructions}\n\n{}", message.text),
                Role::User if !instructions.is_empty() => {
                    let user = message.to_mut();
                    user.text = format!("{}\n\n{}", std::mem::take(&mut instructions), user.text);
                    kept.push(message);
                }
                _ => kept.push(message),
            }
        }
        if !instructions.is_empty() {
            kept.insert(0, Cow::Owned(Message::of_text(Role::User, instructions)));
        }
        self.messages = kept;
    }
}

/// Text between answers in one message of the user.
const BETWEEN_ANSWERS: &str = "\n</tool_response>\n<tool_response>\n";

/// Turns the answer of a tool into a message of the user.
fn as_user(message: &mut Cow<'_, Message>) {
    let text = format!("<tool_response>\n{}\n</tool_response>", message.text);
    *message = Cow::Owned(Message::of_text(Role::User, text));
}
