//! How conversations look under a template: who speaks in which order, with placeholders for what is said.
//!
//! A look depends on the speakers and the functions alone, so that one serves all episodes of a run: it is rendered
//! once and kept, as are the tokens of the template's own pieces. What is kept is bounded, and forgotten when it is
//! too much.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::Function;
use serde_json::{Value as Json, json};

use crate::message::Role;
use crate::template::guard;

/// The most entries of each kind that are kept.
const MAX_ENTRIES: usize = 512;
/// The most sets of functions: one for each seat of a run, as a rule.
const MAX_TOOL_LISTS: usize = 16;

/// Answers that were worked out before.
pub(crate) struct Memo<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    /// The answer for a key, worked out if it is not there.
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
        let mut kept = lock();
        if kept.len() >= MAX_ENTRIES {
            kept.clear();
        }
        kept.insert(key.to_owned(), value.clone());
        Ok(value)
    }
}

/// The functions that a conversation lists, as the template takes them.
pub(crate) struct ToolList {
    functions: Vec<Function>,
    /// A list for the template; null where there is no function.
    pub(crate) tools: Json,
    /// What stands in the placeholders of that list, which come before those of the messages.
    pub(crate) texts: Vec<String>,
    /// The shapes of conversations that end with the policy's turn.
    pub(crate) shapes: Memo<Vec<Role>, Arc<str>>,
}

impl ToolList {
    /// The functions with placeholders where they say what only the template may say.
    pub(crate) fn new(functions: &[Function], controls: &[String]) -> Self {
        let mut texts = vec![];
        let tools: Vec<Json> = functions
            .iter()
            .map(|function| {
                let parameters = serde_json::from_str(&function.parameters).unwrap_or_else(|_| json!({}));
                let about = json!({
                    "name": function.name, "description": function.description, "parameters": parameters,
                });
                json!({"type": "function", "function": guard(about, controls, &mut texts)})
            })
            .collect();
        let tools = if tools.is_empty() { Json::Null } else { Json::Array(tools) };
        Self { functions: functions.to_vec(), tools, texts, shapes: Memo::default() }
    }
}

/// The sets of functions that were offered last.
#[derive(Default)]
pub(crate) struct ToolLists(Mutex<Vec<Arc<ToolList>>>);

impl ToolLists {
    /// The list of these functions.
    pub(crate) fn of(&self, functions: &[Function], controls: &[String]) -> Arc<ToolList> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.iter().find(|list| list.functions == functions) {
            return Arc::clone(known);
        }
        if lists.len() >= MAX_TOOL_LISTS {
            lists.clear();
        }
        let list = Arc::new(ToolList::new(functions, controls));
        lists.push(Arc::clone(&list));
        list
    }
}
