//! A cache of rendered prompts, with placeholders for the texts of messages.
//!
//! The shape of a prompt depends only on the order of roles and on the functions, so one rendering serves all episodes
//! of a run. The tokens of the template's own pieces are cached as well. Each cache is bounded, and is cleared when
//! full.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::Function;
use serde_json::{Value as Json, json};

use crate::error::ChatError;
use crate::message::Role;
use crate::template::guard;

/// Capacity of each [`Memo`], in entries.
const MAX_ENTRIES: usize = 512;
/// Maximum number of cached lists of functions. A run usually has one for each seat.
const MAX_TOOL_LISTS: usize = 16;

/// A bounded cache of computed values.
pub(crate) struct Memo<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    /// The value of a key, computed by `work` if it is not cached.
    pub(crate) fn get<E, Q>(&self, key: &Q, work: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(key) {
            return Ok(known.clone());
        }
        let value = work()?;
        let mut cache = lock();
        if cache.len() >= MAX_ENTRIES {
            cache.clear();
        }
        cache.insert(key.to_owned(), value.clone());
        Ok(value)
    }
}

/// The functions that a conversation lists, as the template takes them.
pub(crate) struct ToolList {
    functions: Vec<Function>,
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
        Ok(Self { functions: functions.to_vec(), tools, texts, shapes: Memo::default() })
    }
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
        if lists.len() >= MAX_TOOL_LISTS {
            lists.clear();
        }
        let list = Arc::new(ToolList::new(functions, controls)?);
        lists.push(Arc::clone(&list));
        Ok(list)
    }
}
