//! Shapes of records in other projects, and their rows.

mod answers;
mod chat;
mod conversation;
mod mapping;
mod preference;
mod prompted;

use serde_json::{Map, Value as Json};

pub(crate) use conversation::THOUGHTS;
pub use conversation::{ChatCall, ChatConversation, ChatMessage};
use gymkhana_rows::Row;
pub use mapping::ColumnMapping;
pub use preference::Preference;
pub(crate) use prompted::conversation_of;

/// Where a record keeps its question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordShape {
    /// `prompt` or `messages`, and `answer`: as the environment `dataset` reads them.
    Rows,
    /// verl: `prompt` as messages, `reward_model.ground_truth`, `data_source`, `extra_info`.
    Verl,
    /// TRL: `prompt` and `completion`, as texts or messages.
    Trl,
    /// verifiers, GSM8K and others: `question`, `answer`, `info`.
    Question,
    /// OpenAI: `messages` that end with the assistant's, and `tools`.
    Chat,
    /// ShareGPT: `conversations` of `from` and `value`.
    ShareGpt,
}

impl RecordShape {
    /// Shape of a record; `None` if it has none of the columns.
    #[must_use]
    pub fn of(columns: &Map<String, Json>) -> Option<Self> {
        let has = |name: &str| columns.get(name).is_some_and(|value| !value.is_null());
        let ends_with_reply = || {
            let messages = columns.get("messages").map(chat::parsed);
            messages.as_ref().and_then(Json::as_array).and_then(|messages| messages.last()).is_some_and(chat::is_reply)
        };
        if has("reward_model") && has("prompt") {
            Some(Self::Verl)
        } else if has("completion") && has("prompt") {
            Some(Self::Trl)
        } else if has("conversations") {
            Some(Self::ShareGpt)
        } else if has("messages") && !has("prompt") && ends_with_reply() {
            Some(Self::Chat)
        } else if has("prompt") || has("messages") {
            Some(Self::Rows)
        } else {
            has("question").then_some(Self::Question)
        }
    }

    /// Name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows (prompt or messages, answer)",
            Self::Verl => "verl (prompt, reward_model.ground_truth)",
            Self::Trl => "TRL (prompt, completion)",
            Self::Question => "question and answer",
            Self::Chat => "OpenAI chat (messages)",
            Self::ShareGpt => "ShareGPT (conversations)",
        }
    }

    /// Brings the columns into the shape [`Self::Rows`].
    fn normalise(self, columns: &mut Map<String, Json>) -> Result<(), String> {
        match self {
            Self::Rows => {}
            Self::Verl => verl(columns),
            Self::Trl => set(columns, "answer", "completion"),
            Self::Question => set(columns, "prompt", "question"),
            Self::Chat => {}
            Self::ShareGpt => {
                let conversation = columns.remove("conversations").unwrap_or_default();
                let Json::Array(turns) = chat::parsed(&conversation) else {
                    return Err("`conversations` is not a list".to_owned());
                };
                columns.insert("messages".to_owned(), chat::of_share_gpt(&turns)?.into());
            }
        }
        if let Some(prompt) = columns.get("prompt").map(chat::parsed).filter(Json::is_array) {
            columns.remove("prompt");
            columns.insert("messages".to_owned(), prompt);
        }
        if let Some(messages) = columns.get("messages").map(chat::parsed).filter(|messages| !messages.is_null()) {
            chat::split_reply(messages, columns)?;
        }
        answers::settle(columns);
        Ok(())
    }
}

/// Row of a record.
///
/// # Errors
/// What is wrong with the record.
pub(crate) fn row(mut columns: Map<String, Json>, mapping: &ColumnMapping) -> Result<Row, String> {
    mapping.apply(&mut columns)?;
    let shape = RecordShape::of(&columns).ok_or_else(|| {
        let names: Vec<String> = columns.keys().map(|name| format!("`{name}`")).collect();
        format!("no column is known as a question; name it with --column prompt=NAME; there are: {}", names.join(", "))
    })?;
    shape.normalise(&mut columns)?;
    Row::of(columns)
}

/// Renames a column unless the target exists.
fn set(columns: &mut Map<String, Json>, target: &str, source: &str) {
    if !columns.contains_key(target)
        && let Some(value) = columns.remove(source)
    {
        columns.insert(target.to_owned(), value);
    }
}

fn verl(columns: &mut Map<String, Json>) {
    let fields = ["reward_model", "extra_info"].map(|name| columns.get(name).map(chat::parsed).unwrap_or_default());
    let [reward_model, extra] = &fields;
    // Accepted answers may be JSON in a text; another text, such as `42` or the tests of a program, stays one.
    let truth = reward_model.get("ground_truth").cloned().unwrap_or_default();
    let truth = Some(chat::parsed(&truth)).filter(|truth| truth.get("target").is_some()).unwrap_or(truth);
    for (target, value) in [("answer", truth), ("split", extra.get("split").cloned().unwrap_or_default())] {
        if !value.is_null() {
            columns.entry(target).or_insert(value);
        }
    }
    columns.remove("reward_model");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Columns of the row of a record.
    fn columns(record: Json) -> Json {
        let Json::Object(record) = record else { panic!("{record}") };
        Json::Object(row(record, &ColumnMapping::default()).expect("a row").columns())
    }

    #[test]
    fn a_row_of_verl_is_known() {
        let record = json!({
            "data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": "1+2?"}], "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "3"}, "extra_info": {"split": "train", "index": 0},
        });
        let row = json!({
            "data_source": "openai/gsm8k", "ability": "math", "extra_info": {"split": "train", "index": 0}, "answer": "3",
            "messages": [{"role": "user", "content": "1+2?"}], "split": "train",
        });
        assert_eq!(columns(record), row);
    }

    #[test]
    fn accepted_answers_of_verl_are_read_and_other_texts_kept() {
        let answer = |truth: Json| {
            let prompt = json!([{"role": "user", "content": "?"}]);
            columns(json!({ "prompt": prompt, "reward_model": {"ground_truth": truth} }))["answer"].clone()
        };
        let target = json!({"target": ["Paris", "paris, France"]});
        assert_eq!(answer(target.clone()), target["target"]);
        assert_eq!(answer(target.to_string().into()), target["target"]);
        for text in ["42", "[1, 2]", "{\"inputs\": [\"1\"], \"outputs\": [\"2\"]}"] {
            assert_eq!(answer(text.into()), text);
        }
    }

    #[test]
    fn rows_of_trl_are_known() {
        let user = json!([{"role": "user", "content": "1+2?"}]);
        let expected = json!({ "messages": user, "answer": "3" });
        assert_eq!(columns(json!({ "prompt": "1+2?", "completion": "3" })), expected);
        let reply = json!([{"role": "assistant", "content": "3"}]);
        assert_eq!(columns(json!({ "prompt": user, "completion": reply })), expected);
    }

    #[test]
    fn a_row_of_gsm8k_keeps_its_solution() {
        let answer = "One and two is <<1+2=3>>3.\n#### 3";
        let row = json!({
            "messages": [{"role": "user", "content": "1+2?"}], "answer": "3", "solution": answer,
        });
        assert_eq!(columns(json!({ "question": "1+2?", "answer": answer })), row);
        let info = json!({ "question": "1+2?", "answer": "3", "info": {"level": 1} });
        let row = json!({ "messages": [{"role": "user", "content": "1+2?"}], "answer": "3", "info": {"level": 1} });
        assert_eq!(columns(info), row);
    }

    #[test]
    fn the_last_reply_of_a_conversation_is_the_answer() {
        let messages = json!([
            {"role": "system", "content": "Add."}, {"role": "user", "content": "1+1"},
            {"role": "assistant", "content": "2"}, {"role": "user", "content": "1+2"},
            {"role": "assistant", "content": "3"},
        ]);
        let row = json!({ "messages": messages.as_array().expect("a list")[..4], "answer": "3" });
        assert_eq!(columns(json!({ "messages": messages })), row);
        assert_eq!(columns(json!({ "messages": messages.to_string() })), row);
        let turn = |from: &str, value: &str| json!({ "from": from, "value": value });
        let share_gpt = json!({ "conversations": [
            turn("system", "Add."), turn("human", "1+1"), turn("gpt", "2"), turn("human", "1+2"), turn("gpt", "3"),
        ] });
        assert_eq!(columns(share_gpt), row);
    }

    /// The calls of the past are texts, and calls at the end are the answer, as in OpenAI's form.
    #[test]
    fn calls_of_share_gpt_are_those_of_openai() {
        let call = json!({ "name": "f", "arguments": { "a": 1 } });
        let turn = |from: &str, value: &str| json!({ "from": from, "value": value });
        let mut turns = vec![turn("human", "Call."), turn("gpt", "I call."), turn("function_call", &call.to_string())];
        let asked = json!({ "role": "user", "content": "Call." });
        let row = json!({ "calls": [call], "answer": "I call.", "messages": [asked] });
        assert_eq!(columns(json!({ "conversations": turns })), row);
        turns.extend([turn("observation", "4"), turn("gpt", "Four.")]);
        let past = format!("I call.\n<tool_call>{call}</tool_call>");
        let answer = json!({ "role": "user", "content": "<tool_response>4</tool_response>" });
        let row = json!({ "messages": [asked, { "role": "assistant", "content": past }, answer], "answer": "Four." });
        assert_eq!(columns(json!({ "conversations": turns })), row);
        let Json::Object(wrong) = json!({ "conversations": [turn("function_call", "f(1)")] }) else { panic!() };
        let said = super::row(wrong, &ColumnMapping::default()).expect_err("no JSON");
        assert!(said.starts_with("turn 1: the calls are not JSON"), "{said}");
    }

    #[test]
    fn expected_calls_become_a_fact() {
        let call = |arguments: Json| json!({ "id": "1", "type": "function", "function": { "name": "f", "arguments": arguments } });
        let tools = json!([{ "type": "function", "function": { "name": "f", "description": "F.", "parameters": {} } }]);
        for arguments in [json!({ "a": 1 }), json!("{\"a\": 1}")] {
            let record = json!({
                "messages": [{"role": "user", "content": "Call."}, {"role": "assistant", "tool_calls": [call(arguments)]}],
                "tools": tools,
            });
            let row = json!({
                "calls": [{"name": "f", "arguments": {"a": 1}}],
                "messages": [{"role": "user", "content": "Call."}],
                "tools": [{"name": "f", "description": "F.", "parameters": {}}],
            });
            assert_eq!(columns(record), row);
        }
    }

    #[test]
    fn a_record_without_a_question_says_what_to_do() {
        let Json::Object(record) = json!({ "problem": "1+2?", "solution": "3" }) else { panic!() };
        let said = row(record.clone(), &ColumnMapping::default()).expect_err("unknown");
        assert!(said.ends_with("name it with --column prompt=NAME; there are: `problem`, `solution`"), "{said}");
        let mapping = ColumnMapping::parse(["prompt=problem", "answer=solution"]).expect("columns");
        assert_eq!(row(record, &mapping).expect("a row").answer().as_deref(), Some("3"));
    }
}
