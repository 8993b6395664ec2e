//! Memory tool: an agent writes, changes, deletes and searches what it wants to keep, as in Mem-α and Memory-R1.
//!
//! The core memory is one text, the episodic memory a list of events and the semantic memory a list of facts. An
//! environment may prepare entries: `{"core": "…", "episodic": ["…"], "semantic": ["…"]}`. Rewards see all entries and
//! counts of calls.

mod limits;
mod stores;

use gymkhana_ranking::Ranking;
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::tool::{Answer, FinalView, Info, Snapshot, Tool};
use gymkhana_sdk::{Call, Error, Function, NamedValue, Parameters, Value, named, plugin};
use serde::Deserialize;

use limits::{Limits, QUERY_CHARS};
use stores::{Store, Stores};

/// Session: its memories and the numbers of calls that worked, and that did not.
#[derive(Debug, PartialEq)]
pub struct Memory {
    stores: Stores,
    calls: Calls,
}

/// Numbers of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Calls {
    inserts: u64,
    updates: u64,
    deletes: u64,
    searches: u64,
    failed: u64,
}

/// Entries that an environment prepares.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Prepared {
    core: String,
    episodic: Vec<String>,
    semantic: Vec<String>,
}

impl Tool for Memory {
    type Options = Limits;

    fn info() -> Info {
        Info::new("Memory that the agent writes and searches")
    }

    fn functions(_options: &Limits) -> Result<Vec<Function>, Error> {
        let memory = "core, episodic or semantic; semantic if left out";
        let insert = Parameters::new().text("text", "what to remember").text("memory", memory).optional();
        let update = Parameters::new().text("id", "such as s3, or core").text("text", "the new text");
        let delete = Parameters::new().text("id", "such as s3, or core");
        let search = Parameters::new()
            .text("query", "words to look for; empty to list all")
            .text("mode", "words (the default) or exact")
            .optional()
            .text("memory", "core, episodic or semantic; all if left out")
            .optional();
        Ok(vec![
            Function::new("memory_insert", "Stores a text and shows its id.", insert),
            Function::new("memory_update", "Replaces a text.", update),
            Function::new("memory_delete", "Deletes a text.", delete),
            Function::new("memory_search", "Shows the texts that fit best, with their ids.", search),
        ])
    }

    fn open(setup: Option<Vec<u8>>, limits: &Limits, _seed: u64) -> Result<Self, Error> {
        let mut stores = Stores::new(*limits);
        if let Some(setup) = setup {
            prepare(&mut stores, &setup)?;
        }
        Ok(Self { stores, calls: Calls::default() })
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        let (done, counter) = match call.name.as_str() {
            "memory_insert" => (self.insert(call), &mut self.calls.inserts),
            "memory_update" => (self.update(call), &mut self.calls.updates),
            "memory_delete" => (self.delete(call), &mut self.calls.deletes),
            "memory_search" => (self.search(call), &mut self.calls.searches),
            _ => return Ok(Answer::no_function(call)),
        };
        *(if done.is_ok() { counter } else { &mut self.calls.failed }) += 1;
        Ok(done.into())
    }
}

impl Memory {
    fn insert(&mut self, call: &Call) -> Result<String, String> {
        let store = store(call)?.unwrap_or(Store::Semantic);
        Ok(format!("stored as {}", self.stores.insert(store, &call.text("text")?)?))
    }

    fn update(&mut self, call: &Call) -> Result<String, String> {
        let id = call.text("id")?;
        self.stores.update(&id, &call.text("text")?)?;
        Ok(format!("updated {id}"))
    }

    fn delete(&mut self, call: &Call) -> Result<String, String> {
        let id = call.text("id")?;
        self.stores.delete(&id)?;
        Ok(format!("deleted {id}"))
    }

    fn search(&self, call: &Call) -> Result<String, String> {
        let query = call.text("query")?;
        let query = query.trim();
        if query.chars().count() > QUERY_CHARS {
            return Err(format!("`query` is longer than {QUERY_CHARS} characters: look for a few words"));
        }
        let texts = self.stores.texts(store(call)?);
        let mode = if call.has("mode") { call.text("mode")? } else { "words".to_owned() };
        let found: Vec<usize> = match mode.as_str() {
            _ if query.is_empty() => (0..texts.len()).collect(),
            "words" => Ranking::new(&texts.iter().map(|(_, text)| *text).collect::<Vec<_>>()).search(query),
            "exact" => containing(&texts, query),
            _ => return Err(format!("there is no mode `{mode}`; use words or exact")),
        };
        if found.is_empty() {
            return Ok(format!("nothing found among {} entries", texts.len()));
        }
        let shown = found.iter().take(self.stores.limits().results).map(|place| {
            let (id, text) = &texts[*place];
            format!("[{id}] {text}")
        });
        let mut lines: Vec<String> = shown.collect();
        if found.len() > lines.len() {
            lines.push(format!("… {} more", found.len() - lines.len()));
        }
        Ok(lines.join("\n"))
    }
}

/// Memory that a call names, if it names one.
fn store(call: &Call) -> Result<Option<Store>, String> {
    if call.has("memory") { Store::named(&call.text("memory")?).map(Some) } else { Ok(None) }
}

/// Places of the texts that contain the query, without regard to case.
fn containing(texts: &[(String, &str)], query: &str) -> Vec<usize> {
    let query = query.to_lowercase();
    (0..texts.len()).filter(|place| texts[*place].1.to_lowercase().contains(&query)).collect()
}

fn prepare(stores: &mut Stores, setup: &[u8]) -> Result<(), Error> {
    let form = "write {\"core\": \"…\", \"episodic\": [\"…\"], \"semantic\": [\"…\"]}";
    let prepared: Prepared = serde_json::from_slice(setup)
        .map_err(|error| Error::invalid(format!("the environment's setup is not a memory ({error}); {form}")))?;
    let core = Some(prepared.core).filter(|core| !core.is_empty()).into_iter().map(|text| (Store::Core, text));
    let episodic = prepared.episodic.into_iter().map(|text| (Store::Episodic, text));
    let semantic = prepared.semantic.into_iter().map(|text| (Store::Semantic, text));
    for (store, text) in core.chain(episodic).chain(semantic) {
        stores.insert(store, &text).map_err(|why| Error::invalid(format!("the environment's setup: {why}")))?;
    }
    Ok(())
}

impl Snapshot for Memory {
    fn snapshot(&self) -> Vec<u8> {
        let Calls { inserts, updates, deletes, searches, failed } = self.calls;
        let counts = [inserts, updates, deletes, searches, failed];
        counts.into_iter().fold(self.stores.write(Writer::new()), Writer::integer).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let stores = Stores::read(&mut reader)?;
        let mut count = || reader.integer();
        let (inserts, updates, deletes) = (count()?, count()?, count()?);
        let calls = Calls { inserts, updates, deletes, searches: count()?, failed: count()? };
        reader.end()?;
        Ok(Self { stores, calls })
    }
}

impl FinalView for Memory {
    fn final_view(&self) -> Vec<NamedValue> {
        let texts = |store| self.stores.texts(Some(store)).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        let list = |store| Value::Other(serde_json::json!(texts(store)).to_string());
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        vec![
            named("core", texts(Store::Core).concat()),
            named("episodic", list(Store::Episodic)),
            named("semantic", list(Store::Semantic)),
            named("chars", count(self.stores.chars() as u64)),
            named("inserts", count(self.calls.inserts)),
            named("updates", count(self.calls.updates)),
            named("deletes", count(self.calls.deletes)),
            named("searches", count(self.calls.searches)),
            named("failed", count(self.calls.failed)),
        ]
    }
}

plugin! { tool: Memory { snapshot, final_view } }

#[cfg(test)]
mod tests;
