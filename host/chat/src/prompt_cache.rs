//! A cache of rendered prompts, with placeholders for the texts of messages.
//!
//! The shape of a prompt depends only on the order of roles and on the functions, so one rendering serves all episodes
//! of a run. The tokens of the template's own pieces are cached as well. Each cache is bounded by bytes, and is cleared
//! when full.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::Function;
use serde_json::{Value as Json, json};

use crate::error::ChatError;
use crate::message::Role;
use crate::template::guard;

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

impl Bytes for Vec<Role> {
    fn bytes(&self) -> usize {
        size_of_val(self.as_slice())
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
        let (key, value) = (key.to_owned(), work()?);
        let bytes = ENTRY_BYTES + key.bytes() + value.bytes();
        let mut cache = lock();
        if cache.bytes + bytes > MEMO_BYTES {
            cache.values.clear();
            cache.bytes = 0;
        }
        if bytes <= MEMO_BYTES && cache.values.insert(key, value.clone()).is_none() {
            cache.bytes += bytes;
        }
        Ok(value)
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
    pub(crate) tools: Json,
    /// The texts of that list's placeholders, which precede those of the messages.
    pub(crate) texts: Vec<String>,
    /// The shapes of conversations that end with the policy's turn.
    pub(crate) shapes: Memo<Vec<Role>, Arc<str>>,
}

impl ToolList {
    /// The list of these functions, with placeholders for strings that contain a control token's text.
    ///
    /// # Errors
    /// [`ChatError::Schema`] if a function's parameters are not JSON.
    pub(crate) fn new(functions: &[Function], controls: &[String]) -> Result<Self, ChatError> {
        let mut texts = vec![];
        let mut tools = vec![];
        for function in functions {
            let parameters: Json = serde_json::from_str(&function.parameters)
                .map_err(|error| ChatError::Schema { function: function.name.clone(), reason: error.to_string() })?;
            let about = json!({
                "name": function.name, "description": function.description, "parameters": parameters,
            });
            tools.push(json!({"type": "function", "function": guard(about, controls, &mut texts)}));
        }
        let tools = if tools.is_empty() { Json::Null } else { Json::Array(tools) };
        let bytes = functions.iter().map(text_bytes).sum();
        Ok(Self { functions: functions.to_vec(), bytes, tools, texts, shapes: Memo::default() })
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
    pub(crate) fn of(&self, functions: &[Function], controls: &[String]) -> Result<Arc<ToolList>, ChatError> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.iter().find(|list| list.functions == functions) {
            return Ok(Arc::clone(known));
        }
        let list = Arc::new(ToolList::new(functions, controls)?);
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
