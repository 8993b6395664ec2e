//! Lists of functions as templates take them, with the shapes of their prompts.
//!
//! The shape of a prompt often depends only on the order of roles and on the functions, so that one rendering serves all
//! episodes of a run.

use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::Function;
use gymkhana_template::Value;
use serde_json::{Value as Json, json};

use super::conversation::ShapeKey;
use super::shape::Shape;
use crate::error::ChatError;
use crate::memo::{ENTRY_BYTES, Memo};

/// Capacity of the cached lists of functions (bytes of their texts). A run usually has one list for each seat.
const TOOL_LIST_BYTES: usize = 8 << 20;
/// Least bytes that a list of functions counts: each has a [`Memo`] of its own, of which this bounds the number to 16.
const MIN_LIST_BYTES: usize = TOOL_LIST_BYTES / 16;

/// The functions that a conversation lists, as the template takes them.
pub(crate) struct FunctionList {
    functions: Vec<Function>,
    /// Bytes of the functions' texts.
    bytes: usize,
    /// The list for the template; null without functions.
    tools: Json,
    /// Texts of the list that hold a mark: they count as text from outside.
    pub(crate) texts: Vec<String>,
    /// The shapes of renderings with these functions.
    pub(crate) shapes: Memo<ShapeKey, Arc<Shape>>,
}

impl FunctionList {
    /// The list of these functions.
    ///
    /// # Errors
    /// [`ChatError::Schema`] if a function's parameters are not JSON.
    pub(crate) fn new(functions: &[Function], marks: &[String]) -> Result<Self, ChatError> {
        let mut tools = vec![];
        for function in functions {
            let parameters: Json = serde_json::from_str(&function.parameters)
                .map_err(|error| ChatError::Schema { function: function.name.clone(), reason: error.to_string() })?;
            let about = json!({
                "name": function.name, "description": function.description, "parameters": parameters,
            });
            tools.push(json!({"type": "function", "function": about}));
        }
        let tools = if tools.is_empty() { Json::Null } else { Json::Array(tools) };
        let mut texts = vec![];
        collect_marked(&tools, marks, &mut texts);
        let bytes = functions.iter().map(text_bytes).sum();
        Ok(Self { functions: functions.to_vec(), bytes, tools, texts, shapes: Memo::default() })
    }

    /// The list for the template. A text with a mark has its place in `texts` as its number.
    pub(crate) fn value(&self) -> Value {
        let place = |text: &str| self.texts.iter().position(|marked| marked == text);
        Value::from_json_with(&self.tools, |text| place(text).and_then(|place| u32::try_from(place).ok()))
    }
}

/// Adds the texts of a JSON value that hold a mark.
fn collect_marked(value: &Json, marks: &[String], texts: &mut Vec<String>) {
    let mut add = |text: &String| {
        if marks.iter().any(|mark| text.contains(mark.as_str())) && !texts.contains(text) {
            texts.push(text.clone());
        }
    };
    match value {
        Json::String(text) => add(text),
        Json::Array(items) => items.iter().for_each(|item| collect_marked(item, marks, texts)),
        Json::Object(map) => {
            map.keys().for_each(&mut add);
            map.values().for_each(|item| collect_marked(item, marks, texts));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn text_bytes(function: &Function) -> usize {
    ENTRY_BYTES + function.name.len() + function.description.len() + function.parameters.len()
}

/// The lists of functions used last.
#[derive(Default)]
pub(crate) struct FunctionLists(Mutex<Vec<Arc<FunctionList>>>);

impl FunctionLists {
    /// The cached list of these functions.
    ///
    /// # Errors
    /// As [`FunctionList::new`].
    pub(crate) fn of(&self, functions: &[Function], marks: &[String]) -> Result<Arc<FunctionList>, ChatError> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.iter().find(|list| list.functions == functions) {
            return Ok(Arc::clone(known));
        }
        let list = Arc::new(FunctionList::new(functions, marks)?);
        let held = |list: &Arc<FunctionList>| MIN_LIST_BYTES.max(list.bytes);
        if lists.iter().map(held).sum::<usize>() + held(&list) > TOOL_LIST_BYTES {
            lists.clear();
        }
        if held(&list) <= TOOL_LIST_BYTES {
            lists.push(Arc::clone(&list));
        }
        Ok(list)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_functions_are_bounded_by_bytes() {
        let lists = FunctionLists::default();
        let list = |number: usize, bytes: usize| {
            let (name, description) = (format!("f{number}"), "x".repeat(bytes));
            let function = Function { name, description, parameters: "{}".to_owned(), cost: 0.0 };
            lists.of(&[function], &[]).expect("a list")
        };
        (0..10).for_each(|number| drop(list(number, 100)));
        assert_eq!(lists.len(), 10);
        (0..100).for_each(|number| drop(list(number, 4 << 20)));
        assert_eq!(lists.len(), 1, "4 MiB and a little more leave no room for another");
    }
}
