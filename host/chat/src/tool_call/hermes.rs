//! The tool-call format of Qwen and Hermes: `<tool_call>{"name": …, "arguments": {…}}</tool_call>` in a reply.
//!
//! What cannot be read as a call is not an error of ours: it becomes a call that is answered with the reason,
//! so that the agent can do better.

use serde::Deserialize;

/// What opens a call.
pub const OPEN: &str = "<tool_call>";
/// What closes a call.
pub const CLOSE: &str = "</tool_call>";

/// A reply taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedReply {
    /// The text outside the calls, trimmed.
    pub message: String,
    /// The calls in their order.
    pub calls: Vec<WrittenCall>,
}

/// One call as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrittenCall {
    /// A name and an object of arguments.
    Sound {
        /// The function's name.
        name: String,
        /// JSON text of an object.
        arguments: String,
    },
    /// Something between the marks that is no call.
    Malformed {
        /// What stood there.
        text: String,
        /// What is wrong with it, in words for the agent.
        reason: String,
    },
}

#[derive(Deserialize)]
struct Wire {
    name: String,
    arguments: Option<serde_json::Value>,
}

/// Takes a reply apart into its message and its calls.
#[must_use]
pub fn parse_reply(text: &str) -> ParsedReply {
    let mut message = String::new();
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        message.push_str(before);
        let Some((inside, behind)) = after.split_once(CLOSE) else {
            let reason = format!("the call is not closed by {CLOSE}");
            calls.push(WrittenCall::Malformed { text: after.trim().to_owned(), reason });
            rest = "";
            break;
        };
        calls.push(parse_call(inside));
        rest = behind;
    }
    message.push_str(rest);
    ParsedReply { message: message.trim().to_owned(), calls }
}

fn parse_call(inside: &str) -> WrittenCall {
    let text = inside.trim();
    let malformed = |reason: String| WrittenCall::Malformed { text: text.to_owned(), reason };
    let wire: Wire = match serde_json::from_str(text) {
        Ok(wire) => wire,
        Err(error) => {
            return malformed(format!("the call is not of the form {{\"name\": …, \"arguments\": {{…}}}}: {error}"));
        }
    };
    match wire.arguments {
        None => WrittenCall::Sound { name: wire.name, arguments: "{}".to_owned() },
        Some(arguments @ serde_json::Value::Object(_)) => {
            WrittenCall::Sound { name: wire.name, arguments: arguments.to_string() }
        }
        Some(_) => malformed("the arguments of the call are no JSON object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound(name: &str, arguments: &str) -> WrittenCall {
        WrittenCall::Sound { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn a_message_without_calls_is_only_a_message() {
        assert_eq!(parse_reply(" 42\n"), ParsedReply { message: "42".to_owned(), calls: vec![] });
    }

    #[test]
    fn several_calls_keep_their_order_and_the_text_around_them() {
        let reply = parse_reply(
            "Let me see.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n</tool_call>\n\
             <tool_call>{\"name\": \"b\"}</tool_call> Wait.",
        );
        assert_eq!(reply.message, "Let me see.\n\n Wait.");
        assert_eq!(reply.calls, [sound("a", "{\"x\":1}"), sound("b", "{}")]);
    }

    #[test]
    fn what_is_no_call_says_why() {
        for (text, why) in [
            ("<tool_call>{\"name\": \"a\", \"arguments\": [1]}</tool_call>", "no JSON object"),
            ("<tool_call>{\"arguments\": {}}</tool_call>", "missing field `name`"),
            ("<tool_call>1+1</tool_call>", "not of the form"),
            ("<tool_call>{\"name\": \"a\"}", "not closed"),
        ] {
            let reply = parse_reply(text);
            let [WrittenCall::Malformed { reason, .. }] = &reply.calls[..] else { panic!("{text}: {reply:?}") };
            assert!(reason.contains(why), "{text}: {reason}");
        }
    }

    #[test]
    fn an_unclosed_call_swallows_the_rest() {
        let reply = parse_reply("<tool_call>{\"name\": \"a\"}</tool_call> and <tool_call> 7");
        assert_eq!(reply.message, "and");
        assert_eq!(reply.calls.len(), 2);
    }
}
