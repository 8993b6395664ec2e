//! A row: messages to an agent, what rewards may know, and what tools begin with.

use serde_json::{Map, Value as Json, json};

use crate::message::{Message, Role};
use crate::schema::schema;

/// Columns with a meaning. All others are facts.
pub const COLUMNS: [&str; 7] = ["prompt", "messages", "system", "split", "tools", "results", "setup"];

/// Row of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Conversation; the last message is the user's.
    pub messages: Vec<Message>,
    /// Split that the row names.
    pub split: Option<String>,
    /// Functions that the agent may call in this task.
    pub functions: Vec<Function>,
    /// Answers to calls, by function.
    pub results: Map<String, Json>,
    /// Set-up data by tool: a text, or JSON.
    pub setup: Map<String, Json>,
    /// All other columns; `null` is left out.
    pub facts: Map<String, Json>,
}

/// Function of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Name.
    pub name: String,
    /// Description for the agent.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Json,
}

impl Row {
    /// Row of a line of JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        // Editors of some systems put a byte order mark before the first line.
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        Self::of(serde_json::from_slice(line).map_err(|error| format!("no object: {error}"))?)
    }

    /// Row of its columns.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn of(mut columns: Map<String, Json>) -> Result<Self, String> {
        let system = text("system", columns.remove("system"))?;
        let mut messages: Vec<Message> = system.map(|text| Message::new(Role::System, text)).into_iter().collect();
        messages.extend(columns.remove("messages").map_or(Ok(vec![]), |column| Message::parse_all(&column))?);
        if let Some(prompt) = text("prompt", columns.remove("prompt"))? {
            messages.push(Message::new(Role::User, prompt));
        }
        match messages.last() {
            None => return Err("there is neither `prompt` nor `messages`".to_owned()),
            Some(last) if last.role != Role::User => return Err("the last of `messages` is not of the user".to_owned()),
            Some(_) => {}
        }
        let split = text("split", columns.remove("split"))?;
        let functions = functions(columns.remove("tools"))?;
        let (results, setup) = (object("results", &mut columns)?, object("setup", &mut columns)?);
        columns.retain(|_, value| !value.is_null());
        Ok(Self { messages, split, functions, results, setup, facts: columns })
    }

    /// The row as columns; [`Self::of`] reads them.
    #[must_use]
    pub fn columns(&self) -> Map<String, Json> {
        let mut columns = self.facts.clone();
        columns.insert("messages".to_owned(), self.messages.iter().map(Message::json).collect());
        if let Some(split) = &self.split {
            columns.insert("split".to_owned(), Json::from(split.as_str()));
        }
        if !self.functions.is_empty() {
            columns.insert("tools".to_owned(), self.functions.iter().map(Function::json).collect());
        }
        for (name, column) in [("results", &self.results), ("setup", &self.setup)] {
            if !column.is_empty() {
                columns.insert(name.to_owned(), Json::Object(column.clone()));
            }
        }
        columns
    }

    /// The column `answer` as text; the first of several accepted answers.
    #[must_use]
    pub fn answer(&self) -> Option<String> {
        let first = self.accepted_answers().and_then(|answers| answers.first());
        first.or(self.facts.get("answer")).map(shown)
    }

    /// Accepted answers, if the column `answer` is a list of texts.
    #[must_use]
    pub fn accepted_answers(&self) -> Option<&[Json]> {
        let answers = self.facts.get("answer")?.as_array().filter(|answers| !answers.is_empty())?;
        answers.iter().all(Json::is_string).then_some(answers)
    }
}

impl Function {
    fn parse(number: usize, entry: &Json) -> Result<Self, String> {
        let place = format!("tool {number}");
        // OpenAI's form wraps the function.
        let function = entry.get("function").unwrap_or(entry);
        let text = |key: &str| function.get(key).and_then(Json::as_str);
        let name = text("name").filter(|name| !name.is_empty()).ok_or(format!("{place} has no `name`"))?;
        // OpenAI's name, Anthropic's and that of MCP.
        let key = ["parameters", "input_schema", "inputSchema"].into_iter().find(|key| function.get(*key).is_some());
        let parameters = match key.map(|key| (key, parsed(function[key].clone()))) {
            None | Some((_, Json::Null)) => json!({ "type": "object", "properties": {} }),
            Some((key, Json::Object(parameters))) => schema(parameters).map_err(|keys| {
                format!(
                    "`{key}` of {place} is neither a JSON Schema nor a list of parameters with types; it has {keys}"
                )
            })?,
            Some((key, _)) => return Err(format!("`{key}` of {place} is not a JSON Schema")),
        };
        Ok(Self { name: name.to_owned(), description: text("description").unwrap_or_default().to_owned(), parameters })
    }

    fn json(&self) -> Json {
        json!({ "name": self.name, "description": self.description, "parameters": self.parameters })
    }
}

/// A value as text: a text is not quoted.
#[must_use]
pub fn shown(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A column that is absent, `null` or a text that is not blank.
fn text(name: &str, column: Option<Json>) -> Result<Option<String>, String> {
    match column {
        Some(Json::String(text)) if !text.trim().is_empty() => Ok(Some(text)),
        Some(Json::Null) | None => Ok(None),
        Some(_) => Err(format!("`{name}` is not a text, or is empty")),
    }
}

/// A column that is absent, `null` or an object. Data sets keep objects as text, too.
fn object(name: &str, columns: &mut Map<String, Json>) -> Result<Map<String, Json>, String> {
    match columns.remove(name).map(parsed) {
        Some(Json::Object(object)) => Ok(object),
        Some(Json::Null) | None => Ok(Map::new()),
        Some(_) => Err(format!("`{name}` is not an object")),
    }
}

fn functions(column: Option<Json>) -> Result<Vec<Function>, String> {
    let functions: Vec<Function> = match column.map(parsed) {
        Some(Json::Array(entries)) => {
            (1..).zip(&entries).map(|(number, entry)| Function::parse(number, entry)).collect::<Result<_, _>>()?
        }
        Some(Json::Null) | None => vec![],
        Some(_) => return Err("`tools` is not a list".to_owned()),
    };
    for (index, function) in functions.iter().enumerate() {
        if functions[..index].iter().any(|other| other.name == function.name) {
            return Err(format!("`tools` names `{}` twice", function.name));
        }
    }
    Ok(functions)
}

/// JSON in a text, or the value itself.
fn parsed(value: Json) -> Json {
    match &value {
        Json::String(text) => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> Row {
        Row::parse(line.as_bytes()).expect(line)
    }

    #[test]
    fn columns_are_messages_split_and_facts() {
        let row = row(r#"{"prompt": "2 + 2?", "answer": 4, "split": "dev", "hint": "even", "note": null}"#);
        assert_eq!(row.messages, [Message::new(Role::User, "2 + 2?".to_owned())]);
        assert_eq!(row.split.as_deref(), Some("dev"));
        assert_eq!(Json::from(row.facts.clone()), json!({ "answer": 4, "hint": "even" }));
        assert_eq!(row.answer().as_deref(), Some("4"));
        assert_eq!(Row::of(row.columns()), Ok(row));
    }

    #[test]
    fn a_system_text_and_messages_stand_before_the_prompt() {
        let row = row(r#"{"system": "Add.", "prompt": "2 + 2?", "messages": [{"role": "user", "content": "1 + 1?"},
            {"role": "assistant", "content": "2"}]}"#);
        let roles: Vec<Role> = row.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
        assert_eq!(Row::of(row.columns()), Ok(row));
    }

    #[test]
    fn tools_results_and_setup_are_read() {
        let plain =
            r#"{"prompt": "?", "tools": [{"name": "f", "parameters": {"type": "object"}}], "setup": {"sql": "x"}}"#;
        let openai = r#"{"prompt": "?", "tools": "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}}]", "setup": "{\"sql\": \"x\"}"}"#;
        assert_eq!(row(plain), row(openai));
        let function =
            Function { name: "f".to_owned(), description: String::new(), parameters: json!({ "type": "object" }) };
        assert_eq!(row(plain).functions, [function]);
        assert_eq!(Row::of(row(plain).columns()), Ok(row(plain)));
    }

    #[test]
    fn wrong_columns_are_named() {
        for (line, wrong) in [
            ("[1]", "no object: "),
            (r#"{"answer": 1}"#, "there is neither `prompt` nor `messages`"),
            (r#"{"prompt": " "}"#, "`prompt` is not a text, or is empty"),
            (r#"{"prompt": "a", "split": 1}"#, "`split` is not a text, or is empty"),
            (r#"{"messages": [{"role": "assistant", "content": "a"}]}"#, "the last of `messages` is not of the user"),
            (r#"{"prompt": "a", "tools": 1}"#, "`tools` is not a list"),
            (r#"{"prompt": "a", "tools": [{}]}"#, "tool 1 has no `name`"),
            (r#"{"prompt": "a", "tools": [{"name": "f", "parameters": 1}]}"#, "`parameters` of tool 1 is not a"),
            (r#"{"prompt": "a", "tools": [{"name": "f"}, {"name": "f"}]}"#, "`tools` names `f` twice"),
            (r#"{"prompt": "a", "setup": "x"}"#, "`setup` is not an object"),
            (r#"{"prompt": "a", "results": []}"#, "`results` is not an object"),
        ] {
            let said = Row::parse(line.as_bytes()).expect_err(line);
            assert!(said.starts_with(wrong), "{line}: {said}");
        }
    }
}
