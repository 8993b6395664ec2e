//! Preferences in rows: two answers to a prompt of which one is better, or one answer with a label.

use serde_json::{Map, Value as Json};

use super::conversation::ChatConversation;
use super::prompted::{completed, entries, messages, with_answer};

/// What a row prefers.
#[derive(Debug, Clone, PartialEq)]
pub enum Preference {
    /// Two answers to the same prompt: `chosen` and `rejected`.
    Pair {
        /// The prompt with the better answer.
        chosen: ChatConversation,
        /// The prompt with the worse answer.
        rejected: ChatConversation,
    },
    /// One answer, `completion`, with a `label`.
    Labelled {
        /// The prompt with the answer.
        conversation: ChatConversation,
        /// Whether the answer is good.
        is_desirable: bool,
    },
}

impl Preference {
    /// Preference of a row: `prompt`, `chosen` and `rejected`, or `prompt`, `completion` and `label`. Without a `prompt`,
    /// `chosen` and `rejected` are whole conversations with a common beginning.
    ///
    /// # Errors
    /// What is wrong with the row.
    pub(crate) fn of(columns: &Map<String, Json>) -> Result<Self, String> {
        let present = |name: &str| columns.get(name).filter(|value| !value.is_null());
        match [present("chosen"), present("rejected"), present("completion")] {
            [Some(chosen), Some(rejected), None] => pair(chosen, rejected, columns),
            [None, None, Some(_)] => {
                let label = present("label").ok_or("there is a `completion` without a `label`")?;
                let is_desirable = truth(label).ok_or_else(|| format!("`label` is {label}, not true or false"))?;
                Ok(Self::Labelled { conversation: completed(columns, "completion")?, is_desirable })
            }
            [Some(_), None, None] => Err("there is `chosen` without `rejected`".to_owned()),
            [None, Some(_), None] => Err("there is `rejected` without `chosen`".to_owned()),
            [None, None, None] => {
                Err("there are neither `chosen` and `rejected`, nor `completion` and `label`".to_owned())
            }
            _ => Err("there is a `completion` beside `chosen` or `rejected`".to_owned()),
        }
    }
}

/// A label: a truth value, 1 or 0, or the text of one of them.
fn truth(label: &Json) -> Option<bool> {
    match label {
        Json::Bool(label) => Some(*label),
        Json::Number(label) if label.as_f64() == Some(1.0) => Some(true),
        Json::Number(label) if label.as_f64() == Some(0.0) => Some(false),
        Json::String(text) => match text.trim().to_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn pair(chosen: &Json, rejected: &Json, columns: &Map<String, Json>) -> Result<Preference, String> {
    let [chosen, rejected] = if columns.get("prompt").is_none_or(Json::is_null) {
        let [one, other] = [("chosen", chosen), ("rejected", rejected)].map(|(name, value)| match entries(value) {
            Some(entries) => messages(&entries, name),
            None => Err(format!("there is no `prompt`, and `{name}` is not a list of messages")),
        });
        let (one, other) = (one?, other?);
        let common = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let (prompt, other_prompt) = (&one[..common], &other[..common]);
        [
            with_answer(prompt, &one[common..], "chosen", columns)?,
            with_answer(other_prompt, &other[common..], "rejected", columns)?,
        ]
    } else {
        [completed(columns, "chosen")?, completed(columns, "rejected")?]
    };
    if chosen == rejected {
        return Err("`chosen` and `rejected` are the same".to_owned());
    }
    Ok(Preference::Pair { chosen, rejected })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape::ChatMessage;

    fn read(row: Json) -> Result<Preference, String> {
        let Json::Object(columns) = row else { panic!("{row}") };
        Preference::of(&columns)
    }

    fn user(text: &str) -> ChatMessage {
        ChatMessage::User(text.to_owned())
    }

    fn reply(text: &str) -> ChatMessage {
        ChatMessage::Assistant { thoughts: None, text: text.to_owned(), calls: vec![] }
    }

    fn conversation(messages: &[ChatMessage], replies: usize) -> ChatConversation {
        ChatConversation { messages: messages.to_vec(), functions: vec![], weight: 1.0, prompt_replies: Some(replies) }
    }

    fn message(role: &str, text: &str) -> Json {
        json!({"role": role, "content": text})
    }

    /// The forms of TRL's and of UltraFeedback's files.
    #[test]
    fn pairs_are_read_in_all_forms() {
        let expected = Preference::Pair {
            chosen: conversation(&[user("2 + 2?"), reply("4")], 0),
            rejected: conversation(&[user("2 + 2?"), reply("5")], 0),
        };
        let [four, five] = ["4", "5"].map(|text| json!([message("assistant", text)]));
        let asked = message("user", "2 + 2?");
        let whole = |text: &str| json!([asked, message("assistant", text)]);
        for row in [
            json!({"prompt": "2 + 2?", "chosen": "4", "rejected": "5"}),
            json!({"prompt": [asked], "chosen": four, "rejected": five}),
            json!({"prompt": json!([asked]).to_string(), "chosen": four.to_string(), "rejected": five.to_string()}),
            json!({"prompt": "2 + 2?", "chosen": whole("4"), "rejected": whole("5")}),
            json!({"chosen": whole("4"), "rejected": whole("5"), "completion": null}),
        ] {
            assert_eq!(read(row.clone()).unwrap(), expected, "{row}");
        }
    }

    /// The first reply is part of the prompt, so that only the second one is an answer.
    #[test]
    fn replies_of_the_prompt_are_not_answers() {
        let begun = [message("user", "Hello"), message("assistant", "Hi"), message("user", "2 + 2?")];
        let row = json!({"prompt": begun, "completion": "4", "label": true});
        let messages = [user("Hello"), reply("Hi"), user("2 + 2?"), reply("4")];
        let expected = Preference::Labelled { conversation: conversation(&messages, 1), is_desirable: true };
        assert_eq!(read(row).unwrap(), expected);
        let ended = |text: &str| [begun.to_vec(), vec![message("assistant", text)]].concat();
        let Preference::Pair { chosen, .. } = read(json!({"chosen": ended("4"), "rejected": ended("5")})).unwrap()
        else {
            panic!("a pair")
        };
        assert_eq!(chosen, conversation(&messages, 1));
    }

    /// What follows the last reply does not make answers different, and a column holds the instructions.
    #[test]
    fn the_end_of_an_answer_is_its_last_reply() {
        let answer = json!([message("assistant", "x"), message("user", "thanks")]);
        let row = json!({"prompt": "?", "chosen": answer, "rejected": "x"});
        assert!(read(row).unwrap_err().contains("`chosen` and `rejected` are the same"));
        let row = json!({"system": "Be brief.", "prompt": "?", "completion": answer, "label": true});
        let messages = [ChatMessage::System("Be brief.".to_owned()), user("?"), reply("x")];
        let expected = Preference::Labelled { conversation: conversation(&messages, 0), is_desirable: true };
        assert_eq!(read(row).unwrap(), expected);
    }

    #[test]
    fn labels_are_true_or_false() {
        let row = |label: Json| json!({"prompt": "?", "completion": "x", "label": label});
        let of_csv = [(json!("True"), true), (json!("0"), false)];
        let of_json = [(json!(true), true), (json!(0), false), (json!(1.0), true)];
        for (label, expected) in of_json.into_iter().chain(of_csv) {
            let Preference::Labelled { is_desirable, .. } = read(row(label)).unwrap() else { panic!("a label") };
            assert_eq!(is_desirable, expected);
        }
        assert!(read(row(json!("good"))).unwrap_err().contains("`label` is \"good\", not true or false"));
        assert!(read(row(json!(0.5))).unwrap_err().contains("not true or false"));
    }

    #[test]
    fn wrong_rows_say_why() {
        let chosen = json!([message("user", "?"), message("assistant", "x")]);
        for (row, why) in [
            (json!({"prompt": "?"}), "there are neither `chosen` and `rejected`, nor `completion` and `label`"),
            (json!({"prompt": "?", "chosen": "x"}), "there is `chosen` without `rejected`"),
            (json!({"prompt": "?", "rejected": "x"}), "there is `rejected` without `chosen`"),
            (
                json!({"prompt": "?", "chosen": "x", "rejected": "y", "completion": "x", "label": true}),
                "there is a `completion` beside `chosen` or `rejected`",
            ),
            (
                json!({"prompt": [message("assistant", "Once")], "chosen": "x", "rejected": "y"}),
                "the prompt ends with a reply of the assistant, which `chosen` cannot continue",
            ),
            (json!({"prompt": "?", "completion": "x"}), "there is a `completion` without a `label`"),
            (json!({"completion": "x", "label": true}), "there is no `prompt`"),
            (json!({"prompt": 3, "completion": "x", "label": true}), "`prompt` is 3, not a text or a list"),
            (json!({"prompt": "?", "chosen": "x", "rejected": 5}), "`rejected` is 5, not a text or a list"),
            (json!({"prompt": "?", "chosen": "x", "rejected": ""}), "`rejected` is empty"),
            (json!({"prompt": "?", "chosen": "x", "rejected": "x"}), "`chosen` and `rejected` are the same"),
            (json!({"chosen": "x", "rejected": "y"}), "there is no `prompt`, and `chosen` is not a list of messages"),
            (json!({"chosen": chosen, "rejected": [message("user", "?")]}), "`rejected` has no reply after the prompt"),
            (
                json!({"prompt": "other", "chosen": chosen, "rejected": "y"}),
                "`chosen` does not begin with a reply of the assistant after the prompt",
            ),
            (
                json!({"prompt": "?", "chosen": [message("robot", "x")], "rejected": "y"}),
                "`chosen`, message 1: the role `robot` is none of",
            ),
        ] {
            let found = read(row.clone()).unwrap_err();
            assert!(found.contains(why), "{row}: {found}");
        }
    }
}
