//! Conversations as a Parquet file: lines of chat messages become rows with nested messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use parquet::arrow::ArrowWriter;
use serde_json::{Map, Value as Json, json};

use crate::error::DataError;
use crate::temporary::Temporary;

/// Rows that are encoded at once.
const BATCH: usize = 1024;

/// Columns of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationTable {
    /// Those of the lines: `episode`, `task`, `success`, `reward`, `messages`, and `tools` as JSON text.
    Plain,
    /// Those of verl: `data_source`, `prompt`, `reward_model`, `extra_info`, with `messages` and `tools` for its supervised
    /// trainer.
    Verl,
}

/// Writer of a Parquet file, which is complete or does not exist.
pub struct ConversationWriter {
    table: ConversationTable,
    schema: Arc<Schema>,
    writer: ArrowWriter<std::fs::File>,
    temporary: Temporary,
    out: PathBuf,
    rows: Vec<Json>,
}

impl ConversationWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(out: &Path, table: ConversationTable) -> Result<Self, DataError> {
        let temporary = Temporary::create(out)?;
        let schema = Arc::new(Schema::new(fields(table)));
        let file = temporary.file.try_clone().map_err(|error| DataError::written(out, error))?;
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), None);
        let writer = writer.map_err(|error| DataError::written(out, std::io::Error::other(error)))?;
        Ok(Self { table, schema, writer, temporary, out: out.to_owned(), rows: Vec::new() })
    }

    /// Adds a line of OpenAI's format, as `host data export` writes it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, line: Map<String, Json>) -> Result<(), DataError> {
        self.rows.push(row(self.table, line));
        if self.rows.len() == BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), DataError> {
        let rows: Vec<Option<&Json>> = self.rows.iter().map(Some).collect();
        let columns = self.schema.fields().iter().map(|field| array(field.data_type(), &inner(&rows, field.name())));
        let batch =
            columns.collect::<Result<_, _>>().and_then(|columns| RecordBatch::try_new(self.schema.clone(), columns));
        let batch = batch.map_err(|error| DataError::written(&self.out, std::io::Error::other(error)))?;
        let written = self.writer.write(&batch);
        written.map_err(|error| DataError::written(&self.out, std::io::Error::other(error)))?;
        self.rows.clear();
        Ok(())
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<(), DataError> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let Self { writer, temporary, out, .. } = self;
        writer.close().map_err(|error| DataError::written(&out, std::io::Error::other(error)))?;
        temporary.keep(&out).map(drop)
    }
}

fn fields(table: ConversationTable) -> Vec<Field> {
    let field = |name: &str, kind: DataType| Field::new(name, kind, true);
    let structure = |fields: Vec<Field>| DataType::Struct(Fields::from(fields));
    let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
    let text = |name: &str| field(name, DataType::Utf8);
    let function = structure(vec![text("name"), text("arguments")]);
    let call = structure(vec![text("id"), text("type"), field("function", function)]);
    let message = structure(vec![text("role"), text("content"), field("tool_calls", list(call)), text("tool_call_id")]);
    let messages = |name: &str| field(name, list(message.clone()));
    let (success, reward) = (field("success", DataType::Boolean), field("reward", DataType::Float64));
    match table {
        ConversationTable::Plain => {
            vec![text("episode"), text("task"), success, reward, messages("messages"), text("tools")]
        }
        ConversationTable::Verl => {
            let extra = vec![text("split"), field("index", DataType::Int64), text("episode"), success, reward];
            vec![
                text("data_source"),
                messages("prompt"),
                field("reward_model", structure(vec![text("style"), text("ground_truth")])),
                field("extra_info", structure(extra)),
                messages("messages"),
                text("tools"),
            ]
        }
    }
}

/// The columns of a line.
fn row(table: ConversationTable, mut line: Map<String, Json>) -> Json {
    if let Some(tools) = line.get("tools").map(Json::to_string) {
        line.insert("tools".to_owned(), tools.into());
    }
    if table == ConversationTable::Plain {
        return Json::Object(line);
    }
    let text = |name: &str| line.get(name).and_then(Json::as_str).unwrap_or_default();
    let (environment, task) = text("task").split_once(':').unwrap_or(("gymkhana", text("task")));
    let (split, index) = task.rsplit_once('/').unwrap_or((task, "0"));
    let messages: &[Json] = line.get("messages").and_then(Json::as_array).map_or(&[], Vec::as_slice);
    let is_reply = |message: &Json| message.get("role").and_then(Json::as_str) == Some("assistant");
    let prompt = &messages[..messages.iter().position(is_reply).unwrap_or(messages.len())];
    json!({
        "data_source": environment,
        "prompt": prompt,
        "reward_model": {"style": "rule", "ground_truth": line.get("answer")},
        "extra_info": {
            "split": split, "index": index.parse::<i64>().ok(), "episode": text("episode"),
            "success": line.get("success"), "reward": line.get("reward"),
        },
        "messages": messages,
        "tools": line.get("tools"),
    })
}

/// The values of a key in objects; null where an object lacks it.
fn inner<'j>(objects: &[Option<&'j Json>], key: &str) -> Vec<Option<&'j Json>> {
    let of = |object: &Option<&'j Json>| (*object)?.get(key).filter(|value| !value.is_null());
    objects.iter().map(of).collect()
}

/// An array of JSON values; a value of another type is null.
fn array(kind: &DataType, values: &[Option<&Json>]) -> Result<ArrayRef, ArrowError> {
    let each = values.iter().copied();
    Ok(match kind {
        DataType::Boolean => Arc::new(each.map(|value| value?.as_bool()).collect::<BooleanArray>()),
        DataType::Float64 => Arc::new(each.map(|value| value?.as_f64()).collect::<Float64Array>()),
        DataType::Int64 => Arc::new(each.map(|value| value?.as_i64()).collect::<Int64Array>()),
        DataType::Struct(fields) => {
            let column = |field: &Arc<Field>| array(field.data_type(), &inner(values, field.name()));
            let columns: Vec<ArrayRef> = fields.iter().map(column).collect::<Result<_, _>>()?;
            let valid: NullBuffer = values.iter().map(Option::is_some).collect();
            Arc::new(StructArray::try_new(fields.clone(), columns, Some(valid))?)
        }
        DataType::List(item) => {
            let items = |value: &Option<&'_ Json>| value.and_then(Json::as_array).map_or(0, Vec::len);
            let offsets = OffsetBuffer::from_lengths(values.iter().map(items));
            let flat: Vec<Option<&Json>> = each.flatten().filter_map(Json::as_array).flatten().map(Some).collect();
            let valid: NullBuffer = values.iter().map(Option::is_some).collect();
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, array(item.data_type(), &flat)?, Some(valid))?)
        }
        // All other columns are texts.
        _ => Arc::new(each.map(|value| value?.as_str()).collect::<StringArray>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::records;

    fn lines() -> Vec<Map<String, Json>> {
        let call = json!({"id": "c", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 2}"}});
        let tools = json!([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]);
        let first = json!({
            "episode": "0.train.0.0.0.0", "task": "lake:train/7", "success": true, "reward": 0.5, "answer": "4",
            "messages": [
                {"role": "system", "content": "Add."},
                {"role": "user", "content": "2 + 2?"},
                {"role": "assistant", "content": null, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "4"},
                {"role": "assistant", "content": "Four."},
            ],
            "tools": tools,
        });
        let second = json!({
            "episode": "0.train.0.0.1.0", "task": "train/3", "success": false, "reward": null,
            "messages": [{"role": "assistant", "content": "?"}],
        });
        [first, second].into_iter().map(|line| line.as_object().unwrap().clone()).collect()
    }

    /// The rows that the reader of Parquet files finds, without nulls.
    fn written(table: ConversationTable) -> Vec<Json> {
        fn without_nulls(value: Json) -> Json {
            match value {
                Json::Object(object) => object
                    .into_iter()
                    .filter(|(_, value)| !value.is_null())
                    .map(|(key, value)| (key, without_nulls(value)))
                    .collect::<Map<_, _>>()
                    .into(),
                Json::Array(items) => items.into_iter().map(without_nulls).collect(),
                other => other,
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("rows.parquet");
        let mut writer = ConversationWriter::create(&out, table).unwrap();
        lines().into_iter().for_each(|line| writer.add(line).unwrap());
        assert!(!out.exists(), "the file has its name before it is complete");
        writer.finish().unwrap();
        let rows = records(&out).unwrap().records.map(|record| record.unwrap().columns.unwrap());
        rows.map(|columns| without_nulls(Json::Object(columns))).collect()
    }

    #[test]
    fn plain_rows_are_those_of_the_lines() {
        let rows = written(ConversationTable::Plain);
        let mut first = lines()[0].clone();
        first.remove("answer");
        first["messages"][2].as_object_mut().unwrap().remove("content");
        first["tools"] = first["tools"].to_string().into();
        assert_eq!(rows[0], Json::Object(first));
        let mut second = lines()[1].clone();
        second.remove("reward");
        assert_eq!(rows[1], Json::Object(second));
    }

    #[test]
    fn rows_of_verl_have_its_columns() {
        let rows = written(ConversationTable::Verl);
        assert_eq!(rows[0]["data_source"], "lake");
        assert_eq!(
            rows[0]["prompt"],
            json!([{"role": "system", "content": "Add."}, {"role": "user", "content": "2 + 2?"}])
        );
        assert_eq!(rows[0]["reward_model"], json!({"style": "rule", "ground_truth": "4"}));
        let extra = json!({"split": "train", "index": 7, "episode": "0.train.0.0.0.0", "success": true, "reward": 0.5});
        assert_eq!(rows[0]["extra_info"], extra);
        assert_eq!(rows[0]["messages"].as_array().unwrap().len(), 5);
        assert_eq!((&rows[1]["data_source"], &rows[1]["prompt"]), (&json!("gymkhana"), &json!([])));
    }
}
