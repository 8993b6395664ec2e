//! Search tool: finds documents by words (BM25) and fetches them page by page.

mod corpus;
mod index;

use std::cell::RefCell;
use std::rc::Rc;

use gymkhana_sdk::tool::{Answer, FinalView, Info, Tool};
use gymkhana_sdk::{Call, Error, Function, NamedValue, Parameters, PluginOptions, assets, hash, named, plugin};

use index::Index;

thread_local! {
    /// Latest index with its sources. Sessions of one instance share it if their documents are equal.
    static LAST: RefCell<Option<(u64, Rc<Index>)>> = const { RefCell::new(None) };
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Maximum number of results of a search
    #[option(default = 5, range = 1..=50)]
    results: usize,
    /// Length of a result's excerpt, in characters
    #[option(default = 160, range = 0..=2_000)]
    snippet_chars: usize,
    /// Length of a fetched page, in characters
    #[option(default = 2_000, range = 100..=100_000)]
    page_chars: usize,
}

/// Session: the documents and the numbers of searches and fetches.
pub struct Search {
    index: Rc<Index>,
    results: usize,
    snippet: usize,
    page: usize,
    searches: i64,
    fetched: Vec<String>,
}

impl Tool for Search {
    type Options = Options;

    fn info() -> Info {
        Info::new("Full-text search over an episode's or a run's documents")
    }

    fn functions(_options: &Options) -> Result<Vec<Function>, Error> {
        let query = Parameters::new().text("query", "words to look for");
        let which = Parameters::new().text("id", "as a search lists it").integer("page", "from 1; 1 if left out");
        Ok(vec![
            Function::new("search", "Lists the documents that fit best, with their ids.", query),
            Function::new("fetch", "Shows a document, page by page.", which.optional()),
        ])
    }

    fn open(setup: Option<Vec<u8>>, options: &Options, _seed: u64) -> Result<Self, Error> {
        let &Options { results, snippet_chars: snippet, page_chars: page } = options;
        Ok(Self { index: index_of(setup.as_deref())?, results, snippet, page, searches: 0, fetched: vec![] })
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        Ok(match call.name.as_str() {
            "search" => call.text("query").map(|query| self.search(&query)).into(),
            "fetch" => self.fetch(call).into(),
            _ => Answer::no_function(call),
        })
    }
}

impl Search {
    fn search(&mut self, query: &str) -> String {
        self.searches += 1;
        let found = self.index.search(query, self.results);
        if found.is_empty() {
            return format!("nothing found among {} documents; try other words", self.index.len());
        }
        let lines = found.iter().enumerate().map(|(place, document)| {
            let snippet = around(&document.text, query, self.snippet);
            format!("{}. [{}] {}\n   {snippet}", place + 1, document.id, document.title)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn fetch(&mut self, call: &Call) -> Result<String, String> {
        let id = call.text("id")?;
        let page = if call.has("page") { call.integer("page")? } else { 1 };
        let document = self
            .index
            .get(&id)
            .ok_or_else(|| format!("there is no document `{id}`; ids are those that search lists"))?;
        let characters: Vec<char> = document.text.chars().collect();
        let pages: Vec<&[char]> = characters.chunks(self.page).collect();
        let count = pages.len().max(1);
        let wanted = usize::try_from(page).ok().filter(|page| (1..=count).contains(page));
        let wanted = wanted.ok_or_else(|| format!("page {page} is not there; `{id}` has the pages 1 to {count}"))?;
        let text: String = pages.get(wanted - 1).copied().unwrap_or_default().iter().collect();
        let shown = format!("[{id}] {} (page {wanted} of {count})\n{text}", document.title);
        if !self.fetched.contains(&id) {
            self.fetched.push(id);
        }
        Ok(shown)
    }
}

impl FinalView for Search {
    fn final_view(&self) -> Vec<NamedValue> {
        vec![named("searches", self.searches), named("fetched", self.fetched.join(" "))]
    }
}

fn index_of(setup: Option<&[u8]>) -> Result<Rc<Index>, Error> {
    let mounted: String =
        assets::names().into_iter().map(|asset| format!("{} {}\n", asset.name, asset.digest)).collect();
    let key = hash(&[mounted.as_bytes(), &[u8::from(setup.is_some())], setup.unwrap_or_default()].concat());
    let known =
        LAST.with_borrow(|last| last.as_ref().filter(|(last, _)| *last == key).map(|(_, index)| Rc::clone(index)));
    if let Some(index) = known {
        return Ok(index);
    }
    let index = Rc::new(Index::new(corpus::load(setup)?));
    LAST.set(Some((key, Rc::clone(&index))));
    Ok(index)
}

/// Excerpt of this many characters around the first word of the query in the text, or the text's start.
fn around(text: &str, query: &str, most: usize) -> String {
    let lower = text.to_lowercase();
    let words = query.split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.chars().count() > 3);
    let found = words.filter_map(|word| lower.find(&word.to_lowercase())).min().unwrap_or(0);
    let before = lower[..found].chars().count().saturating_sub(most / 4);
    let total = text.chars().count();
    let first = before.min(total.saturating_sub(most));
    let cut: String = text.chars().skip(first).take(most).collect();
    let [start, end] = [first > 0, first + most < total].map(|more| if more { "…" } else { "" });
    format!("{start}{}{end}", cut.replace('\n', " ").trim())
}

plugin! { tool: Search { final_view } }

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_sdk::text_of;
    use gymkhana_sdk::tool::Session;

    fn session(options: Vec<NamedValue>) -> Session<Search> {
        let long = "The wall is old. ".repeat(40);
        let documents =
            [("d1", "Varno", format!("{long}Varno lies on the Ebra.")), ("d2", "Olm", "Olm is small.".to_owned())];
        let lines =
            documents.map(|(id, title, text)| serde_json::json!({"id": id, "title": title, "text": text}).to_string());
        Session::open(Some(lines.join("\n").into_bytes()), options, 0).expect("documents")
    }

    fn call(session: &mut Session<Search>, name: &str, arguments: &str) -> (String, bool) {
        let answer = session.call(&Call::advised(name, arguments)).expect("mistakes are answers");
        (text_of(&answer.content), answer.failed)
    }

    #[test]
    fn results_can_be_fetched_page_by_page() {
        let mut session = session(vec![named("page-chars", 300), named("snippet-chars", 40)]);
        let (found, failed) = call(&mut session, "search", r#"{"query": "Where is the Ebra?"}"#);
        assert!(!failed && found.starts_with("1. [d1] Varno\n   …") && found.contains("Ebra"), "{found}");
        let (first, _) = call(&mut session, "fetch", r#"{"id": "d1"}"#);
        assert!(first.starts_with("[d1] Varno (page 1 of 3)\nThe wall is old."), "{first}");
        let (last, _) = call(&mut session, "fetch", r#"{"id": "d1", "page": 3}"#);
        assert!(last.contains("(page 3 of 3)") && last.ends_with("Varno lies on the Ebra."), "{last}");
    }

    #[test]
    fn mistakes_are_explained_with_a_fix() {
        let mut session = session(vec![]);
        let failed = |session: &mut Session<Search>, name: &str, arguments: &str, words: &str| {
            let (answer, failed) = call(session, name, arguments);
            assert!(failed && answer.contains(words), "{answer}");
        };
        failed(&mut session, "fetch", r#"{"id": "d9"}"#, "no document `d9`");
        failed(&mut session, "fetch", r#"{"id": "d2", "page": 2}"#, "pages 1 to 1");
        failed(&mut session, "fetch", r#"{"id": "d2", "page": -1}"#, "pages 1 to 1");
        failed(&mut session, "search", "{}", "`query` is missing");
        failed(&mut session, "find", "{}", "unknown function `find`");
        let (nothing, failed) = call(&mut session, "search", r#"{"query": "zebra"}"#);
        assert!(!failed && nothing.contains("nothing found among 2 documents"), "{nothing}");
    }

    #[test]
    fn cuts_fall_between_letters() {
        assert_eq!(around("äöü ÄÖÜ straße", "straße", 6), "…straß…");
        assert_eq!(around("short", "none", 20), "short");
        assert_eq!(around("", "x", 5), "");
    }
}
