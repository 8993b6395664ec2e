//! One line of the file: a prompt with its examples, its split, and facts for rewards.

use std::collections::{BTreeMap, HashMap};

use gymkhana_sdk::{NamedValue, Value, hash, named};
use serde_json::{Map, Value as Json};

use crate::message::Message;

/// Question of one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Question to the agent.
    pub prompt: String,
    /// Messages in front of the prompt.
    messages: Vec<Message>,
    /// Split that the line names.
    pub split: Option<String>,
    /// All other columns.
    facts: Map<String, Json>,
}

impl Question {
    /// Question of a line; the error says what is wrong with it.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut facts: Map<String, Json> = serde_json::from_str(line).map_err(|error| format!("no object: {error}"))?;
        let prompt = match facts.remove("prompt") {
            Some(Json::String(prompt)) if !prompt.trim().is_empty() => prompt,
            Some(_) => return Err("`prompt` is not a text, or is empty".to_owned()),
            None => return Err("there is no `prompt`".to_owned()),
        };
        let split = match facts.remove("split") {
            Some(Json::String(split)) if !split.is_empty() => Some(split),
            Some(Json::Null) | None => None,
            Some(_) => return Err("`split` is not a text, or is empty".to_owned()),
        };
        let messages = facts.remove("messages").map_or(Ok(vec![]), |column| Message::parse_all(&column))?;
        facts.retain(|_, value| !value.is_null());
        Ok(Self { prompt, messages, split, facts })
    }

    /// Text that the agent sees: the prompt, or the messages and the prompt as the last message of the user.
    pub fn observation(&self) -> String {
        if self.messages.is_empty() {
            return self.prompt.clone();
        }
        let messages = self.messages.iter().map(Message::text).chain([Message::user(&self.prompt).text()]);
        messages.collect::<Vec<_>>().join("\n\n")
    }

    /// The question as a line.
    pub fn line(&self) -> String {
        let mut columns = self.facts.clone();
        columns.insert("prompt".to_owned(), Json::from(self.prompt.as_str()));
        if !self.messages.is_empty() {
            columns.insert("messages".to_owned(), self.messages.iter().map(Message::json).collect());
        }
        if let Some(split) = &self.split {
            columns.insert("split".to_owned(), Json::from(split.as_str()));
        }
        Json::Object(columns).to_string()
    }

    /// The column `answer` as text.
    pub fn answer(&self) -> Option<String> {
        self.facts.get("answer").map(|answer| answer.as_str().map_or_else(|| answer.to_string(), str::to_owned))
    }

    /// All columns but `prompt`, `messages` and `split`, by name.
    pub fn facts(&self) -> Vec<NamedValue> {
        let mut facts: Vec<NamedValue> = self.facts.iter().map(|(name, fact)| named(name, value(fact))).collect();
        facts.sort_by(|one, other| one.name.cmp(&other.name));
        facts
    }
}

/// Questions by split. Without a column `split`, `test_percent` of the prompts, chosen by their hash, form `test` and
/// the others `train`.
pub fn parse_all(file: &str, bytes: &[u8], test_percent: u64) -> Result<BTreeMap<String, Vec<Question>>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("asset `{file}` is not UTF-8"))?;
    let mut splits: BTreeMap<String, Vec<Question>> = BTreeMap::new();
    let mut seen: HashMap<String, (usize, String)> = HashMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("asset `{file}`, line {}", index + 1);
        let question = Question::parse(line).map_err(|wrong| format!("{place}: {wrong}"))?;
        let split = question.split.clone().unwrap_or_else(|| assigned(&question.prompt, test_percent).to_owned());
        match seen.get(&question.prompt) {
            Some((first, other)) if *other != split => {
                return Err(format!("{place}: split `{split}` repeats the prompt of line {first}, split `{other}`"));
            }
            Some(_) => {}
            None => {
                seen.insert(question.prompt.clone(), (index + 1, split.clone()));
            }
        }
        splits.entry(split).or_default().push(question);
    }
    if splits.is_empty() { Err(format!("asset `{file}` has no lines")) } else { Ok(splits) }
}

fn assigned(prompt: &str, test_percent: u64) -> &'static str {
    if hash(prompt.as_bytes()) % 100 < test_percent { "test" } else { "train" }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Bool(flag) => Value::Flag(*flag),
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(number) => number.as_i64().map_or_else(
            || number.as_f64().map_or_else(|| Value::Other(number.to_string()), Value::Number),
            Value::Integer,
        ),
        other => Value::Other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_prompt_split_and_facts() {
        let line = r#"{"prompt": "2 + 2?", "answer": 4, "split": "dev", "hint": "even", "note": null}"#;
        let question = Question::parse(line).expect("a question");
        assert_eq!((question.prompt.as_str(), question.split.as_deref()), ("2 + 2?", Some("dev")));
        assert_eq!(question.facts(), [named("answer", 4), named("hint", "even".to_owned())]);
        assert_eq!(question.answer().as_deref(), Some("4"));
        assert_eq!(Question::parse(&question.line()), Ok(question));
    }

    #[test]
    fn messages_come_before_the_prompt() {
        let line = r#"{"prompt": "2 + 2?", "answer": 4, "messages": [{"role": "system", "content": "Add."},
            {"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]}"#;
        let question = Question::parse(line).expect("a question");
        assert_eq!(question.observation(), "Add.\n\nUser: 1 + 1?\n\nAssistant: 2\n\nUser: 2 + 2?");
        assert_eq!((question.prompt.as_str(), question.facts()), ("2 + 2?", vec![named("answer", 4)]));
        assert_eq!(Question::parse(&question.line()), Ok(question));
        for none in [r#"{"prompt": "2 + 2?", "messages": []}"#, r#"{"prompt": "2 + 2?", "messages": null}"#] {
            assert_eq!(Question::parse(none).map(|question| question.observation()), Ok("2 + 2?".to_owned()));
        }
    }

    #[test]
    fn wrong_lines_are_named_by_number() {
        let wrong = |text: &str| parse_all("q.jsonl", text.as_bytes(), 10).expect_err("a wrong line");
        let first = "{\"prompt\": \"a\", \"split\": \"train\"}\n\n";
        assert!(wrong(&format!("{first}[1]")).starts_with("asset `q.jsonl`, line 3: no object"));
        assert!(wrong(&format!("{first}{{\"answer\": \"b\"}}")).ends_with("line 3: there is no `prompt`"));
        assert!(wrong(&format!("{first}{{\"prompt\": 5}}")).contains("line 3: `prompt` is not a text"));
        let messages = wrong(&format!("{first}{{\"prompt\": \"b\", \"messages\": \"c\"}}"));
        assert!(messages.ends_with("line 3: `messages` is not a list"), "{messages}");
        let repeated = wrong(&format!("{first}{{\"prompt\": \"a\", \"split\": \"test\"}}"));
        assert!(repeated.ends_with("line 3: split `test` repeats the prompt of line 1, split `train`"), "{repeated}");
        assert!(wrong("\n").contains("has no lines"));
        assert!(parse_all("q.jsonl", b"\xff", 10).is_err_and(|wrong| wrong.contains("UTF-8")));
    }

    #[test]
    fn splits_follow_the_column_or_the_percentage() {
        let lines: String = (0..1000).map(|number| format!("{{\"prompt\": \"question {number}\"}}\n")).collect();
        let sizes = |percent: u64| {
            let splits = parse_all("q.jsonl", lines.as_bytes(), percent).expect("questions");
            let size = |name: &str| splits.get(name).map_or(0, Vec::len);
            (size("train"), size("test"))
        };
        assert_eq!((sizes(0), sizes(100)), ((1000, 0), (0, 1000)));
        let (train, test) = sizes(10);
        assert!(train + test == 1000 && (50..200).contains(&test), "{test}");
        let named = parse_all("q.jsonl", b"{\"prompt\": \"a\", \"split\": \"dev\"}", 100).expect("questions");
        assert_eq!(named.keys().collect::<Vec<_>>(), ["dev"]);
    }
}
