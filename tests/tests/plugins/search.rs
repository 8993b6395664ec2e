//! Fact-hunt episodes across documents with the real components, and documents that a run mounts.

use crate::common::{Table, answers, call, limits, play, play_by, rollout, sandbox};
use gymkhana_record::{Call, Ending, EpisodeRecord, Seed, Value, text_of};
use gymkhana_registry::Capability;
use gymkhana_rollout::{Actor, Limits, ReplayDifference};
use gymkhana_sandbox::{Assets, Grants, Plugin, ToolSession};
use gymkhana_tests::component;

fn table(hops: i64) -> Table {
    let hunt = Table::new().environment("fact-hunt", &[("hops", Value::Integer(hops)), ("pages", Value::Integer(30))]);
    hunt.tool("search", &[]).reward("answer-match", &[])
}

fn long() -> Limits {
    Limits { turns: 20, context_tokens: 16_384, ..limits() }
}

fn correct(record: &EpisodeRecord) -> f64 {
    let found = record.scores.iter().flat_map(|plugin| &plugin.scores).flat_map(|score| &score.components);
    found.filter(|component| component.name == "correct").map(|component| component.value).sum()
}

#[tokio::test]
async fn the_oracle_finds_every_answer_page_by_page() {
    for hops in [1, 2, 4] {
        let rollout = rollout(&table(hops), long()).await;
        let record = play_by(&rollout, Actor::Oracle).await;
        assert_eq!((record.ending, correct(&record)), (Ending::Terminated, 1.0), "{hops}: {:?}", record.turns);
        // A search and a page for each step, unless a search lists the page of a later step.
        assert!((2..=2 * hops).contains(&(answers(&record).len() as i64)), "{:?}", record.turns);
        let fetched = record.views.iter().find(|view| view.name == "search.fetched").expect("a view");
        let pages = record.privileged.iter().find(|fact| fact.name == "pages").expect("a fact");
        let [Value::Text(fetched), Value::Text(pages)] = [&fetched.value, &pages.value] else { panic!("texts") };
        let pages: Vec<&str> = pages.split(' ').collect();
        assert!(pages.len() as i64 == hops + 1 && fetched.split(' ').all(|page| pages.contains(&page)), "{fetched}");
        let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.expect("no fault of the host");
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    }
}

#[tokio::test]
async fn the_oracles_calls_are_the_expected_calls() {
    let rollout = rollout(&table(2).reward("tool-match", &[]), long()).await;
    let walked = play_by(&rollout, Actor::Oracle).await;
    let matched = |record: &EpisodeRecord, name: &str| {
        let found = record.scores.iter().flat_map(|plugin| &plugin.scores).flat_map(|score| &score.components);
        found.filter(|component| component.name == name).map(|component| component.value).sum::<f64>()
    };
    let best = (2.0 * matched(&walked, "parameters"), matched(&walked, "format"));
    assert_eq!((best, matched(&walked, "correctness")), ((8.0, 1.0), 3.0), "{:?}", walked.turns);
    let lost = play(&rollout, &[&call("fetch", r#"{"id": "page-99"}"#), "Nowhere"]).await;
    assert!(matched(&lost, "correctness") < 0.0);
    let silent = play(&rollout, &["Nowhere"]).await;
    assert_eq!((matched(&silent, "format"), matched(&silent, "correctness")), (0.0, -3.0));
}

#[tokio::test]
async fn a_guess_is_wrong_and_the_corpus_stays_hidden() {
    let rollout = rollout(&table(2), long()).await;
    let search = call("search", r#"{"query": "town river firm"}"#);
    let record = play(&rollout, &[&search, &call("fetch", r#"{"id": "page-99"}"#), "Nowhere"]).await;
    assert_eq!((record.ending, correct(&record)), (Ending::Terminated, 0.0));
    let answers = answers(&record);
    assert!(!answers[0].1 && answers[1].1 && answers[1].0.contains("no document `page-99`"), "{answers:?}");
    // The tool's setup is not part of the agent's observations.
    let (_, corpus) = record.opening.setup.iter().find(|(tool, _)| tool == "search").expect("a setup");
    assert!(corpus.len() > 2000 && answers[0].0.len() < corpus.len() / 2);
}

async fn ask(plugin: &Plugin, name: &str, arguments: &str) -> String {
    let mut session = ToolSession::open(plugin, None, &[], Seed(1)).await.expect("a session");
    let call = Call { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    text_of(&session.call(&call).await.expect("an answer").content)
}

#[tokio::test]
async fn mounted_documents_are_found_and_optional() {
    let path = component("search");
    let ungranted = Plugin::load(sandbox(), &path, &Grants::default()).expect("it can do without");
    assert!(ask(&ungranted, "search", r#"{"query": "ebra"}"#).await.contains("nothing found among 0 documents"));
    let granted = Plugin::load(sandbox(), &path, &Grants([Capability::Assets].into())).expect("granted");
    let mount = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().into()));
        granted.with_assets(files.collect::<Assets>())
    };
    let line = r#"{"id": "d1", "title": "Varno", "text": "Varno lies on the Ebra."}"#;
    let mounted = mount(&[("towns.jsonl", line), ("notes.txt", "Nobody swims in the Ebra.")]);
    let found = ask(&mounted, "search", r#"{"query": "swims in the Ebra"}"#).await;
    assert!(found.starts_with("1. [notes.txt] notes.txt") && found.contains("2. [d1] Varno"), "{found}");
    assert!(ask(&mounted, "fetch", r#"{"id": "notes.txt"}"#).await.ends_with("Nobody swims in the Ebra."));
    let twice = mount(&[("a.jsonl", line), ("b.jsonl", line)]);
    let error = ToolSession::open(&twice, None, &[], Seed(1)).await.err().expect("refused");
    assert!(error.message.contains("two documents have the id `d1`"), "{error}");
}
