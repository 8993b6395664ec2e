//! Bounded caches: lists of functions with the shapes of their prompts, and other computed values.
//!
//! The shape of a prompt often depends only on the order of roles and on the functions, so that one rendering serves all
//! episodes of a run. Each cache is bounded by bytes, and is cleared when full.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::Function;
use gymkhana_template::Value;
use serde_json::{Value as Json, json};

use crate::error::ChatError;
use crate::rendering::{Shape, Signature};

/// Capacity of each [`Memo`] (bytes): a thousand shapes of prompts of 8 KiB.
const MEMO_BYTES: usize = 8 << 20;
/// Capacity of the cached lists of functions (bytes of their texts). A run usually has one list for each seat.
const TOOL_LIST_BYTES: usize = 8 << 20;
/// Least bytes that a list of functions counts: each has a [`Memo`] of its own, of which this bounds the number to 16.
const MIN_LIST_BYTES: usize = TOOL_LIST_BYTES / 16;
/// Bytes of an entry besides its content: pointers, lengths and the table's slot.
const ENTRY_BYTES: usize = 128;

/// Size in memory.
pub(crate) trait Bytes {
    /// Bytes of the content.
    fn bytes(&self) -> usize;
}

impl Bytes for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Bytes for Arc<str> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Bytes for Arc<[u32]> {
    fn bytes(&self) -> usize {
        size_of_val(&**self)
    }
}

/// A bounded cache of computed values.
pub(crate) struct Memo<K, V>(Mutex<Entries<K, V>>);

struct Entries<K, V> {
    values: HashMap<K, V>,
    bytes: usize,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { values: HashMap::new(), bytes: 0 }))
    }
}

impl<K: Eq + Hash + Bytes, V: Clone + Bytes> Memo<K, V> {
    /// The value of a key, computed by `work` if it is not cached.
    pub(crate) fn get<E, Q>(&self, key: &Q, work: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().values.get(key) {
            return Ok(known.clone());
        }
        let value = work()?;
        self.keep(key.to_owned(), value.clone());
        Ok(value)
    }

    /// The cached value of a key.
    pub(crate) fn known(&self, key: &K) -> Option<V> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values.get(key).cloned()
    }

    /// Caches a value, unless it is larger than the cache.
    pub(crate) fn keep(&self, key: K, value: V) {
        let bytes = ENTRY_BYTES + key.bytes() + value.bytes();
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.bytes + bytes > MEMO_BYTES {
            cache.values.clear();
            cache.bytes = 0;
        }
        if bytes <= MEMO_BYTES && cache.values.insert(key, value).is_none() {
            cache.bytes += bytes;
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

/// The functions that a conversation lists, as the template takes them.
pub(crate) struct ToolList {
    functions: Vec<Function>,
    /// Bytes of the functions' texts.
    bytes: usize,
    /// The list for the template; null without functions.
    tools: Json,
    /// Texts of the list that hold a mark: they count as text from outside.
    pub(crate) texts: Vec<String>,
    /// The shapes of renderings with these functions.
    pub(crate) shapes: Memo<Signature, Arc<Shape>>,
}

impl ToolList {
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
pub(crate) struct ToolLists(Mutex<Vec<Arc<ToolList>>>);

impl ToolLists {
    /// The cached list of these functions.
    ///
    /// # Errors
    /// As [`ToolList::new`].
    pub(crate) fn of(&self, functions: &[Function], marks: &[String]) -> Result<Arc<ToolList>, ChatError> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.iter().find(|list| list.functions == functions) {
            return Ok(Arc::clone(known));
        }
        let list = Arc::new(ToolList::new(functions, marks)?);
        let held = |list: &Arc<ToolList>| MIN_LIST_BYTES.max(list.bytes);
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
    fn a_memo_is_bounded_by_bytes() {
        let memo: Memo<String, Arc<str>> = Memo::default();
        let get = |key: &str, bytes: usize| {
            let value: Result<Arc<str>, ChatError> = memo.get(key, || Ok("x".repeat(bytes).into()));
            assert_eq!(value.expect("a value").len(), bytes);
        };
        for number in 0..100 {
            get(&format!("large {number}"), 1 << 20);
            assert!(memo.bytes() <= MEMO_BYTES, "{}", memo.bytes());
        }
        get("larger than the cache", MEMO_BYTES);
        assert!(memo.bytes() <= MEMO_BYTES);
        for number in 0..10_000 {
            get(&format!("small {number}"), 10);
        }
        // Ten thousand small values fit beside each other: the first is not computed again.
        let known: Result<Arc<str>, ChatError> = memo.get("small 0", || unreachable!());
        assert_eq!(known.expect("cached").len(), 10);
    }

    #[test]
    fn lists_of_functions_are_bounded_by_bytes() {
        let lists = ToolLists::default();
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
