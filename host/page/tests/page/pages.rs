//! What each page shows.

use axum::http::StatusCode;

use gymkhana_record::Fork;

use crate::fixture::{Runs, assert_holds, assert_lacks, comparison, episode, id, run_file};

/// Number of rows with an episode's link in its first cell.
fn rows(page: &str) -> usize {
    page.matches(r#"<th scope="row"><a href="/runs/0/episodes/"#).count()
}

#[tokio::test]
async fn the_overview_has_results_and_curves() {
    let runs = Runs::one();
    let page = runs.page().get("/").await;
    assert_holds(&page, &["<td>finished</td>", "25 % → 75 %", "1 min 1 s", "success by training step."]);
    // The last of ten steps has the success 0.9 and the reward 0.4.
    assert_holds(&page, &["first: from 0 to 0.9, between 0 and 0.9.", "first: from -0.5 to 0.4"]);
    assert_eq!(page.matches("<figure").count(), 3, "one chart for each value");
}

/// Steps of the second stage are 0 to 9, and the first stage has none.
#[tokio::test]
async fn curves_of_one_stage_have_its_own_steps() {
    let runs = Runs::one();
    let client = runs.page();
    let page = client.get("/?stage=rl").await;
    assert_holds(&page, &["success by training step of rl.", "first: from 0 to 0.9"]);
    let page = client.get("/?stage=warm-up").await;
    assert_holds(&page, &["No training step has been recorded here yet."]);
}

#[tokio::test]
async fn a_page_without_updates_opens_no_stream() {
    let runs = Runs::one();
    let client = runs.page();
    for path in ["/", "/runs/0/episodes"] {
        assert_holds(&client.get(path).await, &["data-events"]);
        assert_lacks(&client.get(&format!("{path}?live=no")).await, &["data-events"]);
    }
    assert_eq!(client.status("/?live=perhaps").await, StatusCode::BAD_REQUEST);
}

/// The state of a run that was stopped in its second stage has the results of the first.
#[tokio::test]
async fn a_stopped_run_shows_the_stages_that_ended() {
    let mut runs = Runs::new();
    let run = runs.add_stopped("stopped", &run_file(3), &[episode(0, 0, 0)]);
    let page = runs.page().get("/").await;
    assert_holds(&page, &["<td>running</td>", "warm-up: 25 % → 75 %"]);
    drop(run);
    assert_holds(&runs.page().get("/").await, &["<td>stopped</td>", "warm-up: 25 % → 75 %"]);
}

#[tokio::test]
async fn rewards_have_a_row_for_each_phase() {
    let mut runs = Runs::one();
    let mut shown = episode(0, 0, 0);
    shown.id.phase = gymkhana_record::Phase::Demonstration;
    runs.add("second", &run_file(3), &[shown, episode(1, 0, 0)]);
    let client = runs.page();
    assert_lacks(&client.get("/runs/0/rewards").await, &["<td>demonstrations</td>"]);
    let page = client.get("/runs/1/rewards").await;
    assert_holds(&page, &["<td>training</td>", "<td>demonstrations</td>"]);
}

#[tokio::test]
async fn curves_are_zoomed_and_smoothed() {
    let runs = Runs::one();
    let client = runs.page();
    let page = client.get("/?from=3&to=5").await;
    assert_holds(&page, &["first: from 0.3 to 0.5"]);
    let page = client.get("/?smooth=0.5&x=time").await;
    assert_holds(&page, &["by minutes.", r#"class="raw run-0""#]);
    assert_eq!(client.status("/?smooth=much").await, StatusCode::BAD_REQUEST);
    assert_eq!(client.status("/?x=day").await, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn several_runs_are_shown_over_each_other_or_apart() {
    let mut runs = Runs::one();
    runs.add("second", &run_file(4), &[episode(0, 0, 0)]);
    let client = runs.page();
    let page = client.get("/").await;
    assert_holds(&page, &["first: from 0", "second: from 0", r#"class="run-1""#]);
    let page = client.get("/?run=1").await;
    assert_holds(&page, &["second: from 0"]);
    assert_lacks(&page, &["first: from 0"]);
    assert_eq!(client.status("/?run=2").await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn settings_mark_what_differs() {
    let mut runs = Runs::one();
    runs.add("second", &run_file(4), &[episode(0, 0, 0)]);
    let client = runs.page();
    let page = client.get("/settings").await;
    assert_holds(&page, &["stages[0].steps", "policy.lora"]);
    let page = client.get("/settings?show=differences").await;
    assert_holds(&page, &["stages[0].steps", "<code>3</code>", "<code>4</code>"]);
    assert_lacks(&page, &["policy.lora"]);
}

#[tokio::test]
async fn the_table_is_filtered_sorted_and_paged() {
    let runs = Runs::one();
    let client = runs.page();
    let path = "/runs/0/episodes";
    let page = client.get(path).await;
    assert_eq!(rows(&page), 16);
    assert_holds(&page, &["16 episodes, 1 to 16 shown", "train/0", "trap"]);
    // Members 2 and 3 of the four groups succeed, and the failed one with the number 9.
    for (query, expected) in [
        ("success=yes", 9),
        ("success=no", 7),
        ("step_min=1", 8),
        ("phase=evaluation", 0),
        ("reward_min=0.3&reward_max=0.3", 4),
        ("ending=terminated&stage=1", 16),
        ("stage=0", 0),
        ("failure=trap", 1),
        ("failure=none", 15),
        ("text=MEMBER+9", 1),
        ("text=nothing+of+this", 0),
        // Segments, which outlines lack, decide about the tokens.
        ("where=success+and+sampled_tokens+==+2", 9),
        ("where=not+success+and+stage+==+'rl'", 7),
        ("where=length+%3E+4", 0),
        ("size=5", 5),
        ("size=5&from=15", 1),
        ("from=99999999999999", 0),
    ] {
        assert_eq!(rows(&client.get(&format!("{path}?{query}")).await), expected, "{query}");
    }
    let page = client.get(&format!("{path}?order=highest-reward&size=1")).await;
    assert_holds(&page, &["1.train.0.0.9.0", "from=1"]);
    assert_eq!(client.status(&format!("{path}?order=best")).await, StatusCode::BAD_REQUEST);
    assert_eq!(client.status(&format!("{path}?where=succes")).await, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_search_continues_where_it_ended() {
    let runs = Runs::one();
    let client = runs.page();
    let first = client.get("/runs/0/episodes?text=member&size=10").await;
    assert_eq!(rows(&first), 10);
    assert_holds(&first, &["10 of 16 searched", "text=member&amp;size=10&amp;from=10"]);
    assert_eq!(rows(&client.get("/runs/0/episodes?text=member&size=10&from=10").await), 6);
}

#[tokio::test]
async fn an_episode_has_its_turns_tokens_scores_and_facts() {
    let runs = Runs::one();
    let client = runs.page();
    let page = client.get("/runs/0/episodes/1.train.1.1.2.0").await;
    assert_holds(
        &page,
        &[
            "What is 1 + 2?",
            "Seat 0 calls <code>add</code>",
            "&quot;a&quot;: 1,",
            "three",
            "It is 3, says member 2.",
            r#"<th scope="row">match</th>"#,
            "correct: 0.2",
            r##"the number <a href="#turn-3">turn 3</a>: <mark>3</mark>"##,
            r#"id="turn-3""#,
            "Policies never saw this.",
            "the number 3",
            "4 tokens, 2 sampled",
            // A log-probability of -0.5 is a tenth of the scale of nine shades, -4 is four fifths.
            r#"class="token sampled shade-1""#,
            r#"class="token sampled shade-7""#,
            "log-probability -4, entropy 1, version 3",
        ],
    );
    let command = format!("host replay {} --episode 1.train.1.1.2.0", runs.path(0).display());
    assert_holds(&page, &[&command]);
    let page = client.get("/runs/0/episodes/1.train.1.1.2.0?colour=mask").await;
    assert_eq!(page.matches("token sampled shade-5").count(), 2);
    // The last episode is in the journal.
    client.get("/runs/0/episodes/1.train.1.1.3.0").await;
}

#[tokio::test]
async fn tokens_have_the_texts_of_the_runs_tokenizer() {
    let runs = Runs::one();
    let chat = runs.path(0).join("chat");
    std::fs::create_dir_all(&chat).expect("a folder");
    let tokenizer = r#"{"decoder":{"type":"ByteLevel"},"model":{"vocab":{"Ġfive":21}},"added_tokens":[]}"#;
    std::fs::write(chat.join("tokenizer.json"), tokenizer).expect("a file");
    let page = runs.page().get("/runs/0/episodes/1.train.0.0.0.0").await;
    assert_holds(&page, &["> five</span>", ">22 </span>"]);
}

#[tokio::test]
async fn an_unsandboxed_episode_offers_no_replay() {
    let mut runs = Runs::new();
    let mut record = episode(0, 0, 0);
    record.unsandboxed = vec!["local/guess".to_owned()];
    runs.add("first", &run_file(1), &[record]);
    let page = runs.page().get("/runs/0/episodes/1.train.0.0.0.0").await;
    assert_holds(&page, &["cannot be replayed", "local/guess"]);
    assert_lacks(&page, &["host replay"]);
}

#[tokio::test]
async fn members_of_a_group_are_side_by_side() {
    let runs = Runs::one();
    let client = runs.page();
    let page = client.get("/runs/0/groups/1.train.1.0").await;
    assert_eq!(rows(&page), 4);
    // The mean of 0, 0.1, 0.2 and 0.3 is 0.15.
    assert_holds(&page, &["-0.15", "0.15", "match.correct", "says member 3."]);
    assert_eq!(client.status("/runs/0/groups/1.train.1.7").await, StatusCode::NOT_FOUND);
    assert_eq!(client.status("/runs/0/groups/x").await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn forks_are_shown_as_a_tree() {
    let mut runs = Runs::new();
    let fork = |member: u32, parent: u32| {
        let mut record = episode(0, 0, member);
        record.forks = vec![Fork { parent: id(0, 0, parent), turns: vec![1], seed: record.seed }];
        record
    };
    // The last one names itself as its parent, as only a damaged record does.
    runs.add("first", &run_file(1), &[episode(0, 0, 0), fork(1, 0), fork(2, 1), fork(3, 3)]);
    let page = runs.page().get("/runs/0/groups/1.train.0.0").await;
    let tree = page.split("<h2>Forks</h2>").nth(1).and_then(|rest| rest.split("<h2>").next()).expect("a tree");
    let link = |member: u32| format!(r#"<a href="/runs/0/episodes/{0}">{0}</a>"#, id(0, 0, member));
    let expected = format!(
        "<ul><li>{}, reward 0<ul><li>{} after 1 turn, reward 0.1<ul><li>{} after 1 turn, reward 0.2</li></ul></li></ul></li>\
         <li>{} after 1 turn, reward 0.3</li></ul>",
        link(0),
        link(1),
        link(2),
        link(3)
    );
    assert_eq!(tree, expected);
}

#[tokio::test]
async fn rewards_are_summed_up_and_compared() {
    let runs = Runs::one();
    let client = runs.page();
    let page = client.get("/runs/0/rewards").await;
    assert_holds(&page, &["16 episodes", "match.correct", "trap: 1 episode"]);
    // The reward is the score of the only plugin.
    assert_eq!(page.matches(r#"<td class="number agrees">1.00</td>"#).count(), 9);
    assert_holds(&page, &["These two agree about every episode."]);
    let page = client.get("/runs/0/rewards?phase=evaluation").await;
    assert_holds(&page, &["These episodes have no rewards."]);
}

/// No function of the fixture is called wrongly; each group of four has rewards that differ, and equal tokens.
#[tokio::test]
async fn health_has_a_row_for_each_figure_and_the_same_as_json() {
    let runs = Runs::one();
    let client = runs.page();
    let page = client.get("/runs/0/health").await;
    assert_holds(
        &page,
        &[
            r#"<th scope="row">endings</th><td>ok</td><td>stage `rl`: 0.0 % cut short without success; terminated 100.0 %</td>"#,
            r#"<th scope="row">failures</th><td>warn</td><td>stage `rl`: 6.2 % of 16 episodes; tool `sql`: trap 1</td>"#,
            "<td>at most 5 % of the episodes</td><td>see `host show DIR --episodes failed`, and correct the plugin;",
            "<td>not measured</td><td>–</td>",
        ],
    );
    let json = client.get("/api/runs/0/health").await;
    let findings: Vec<serde_json::Value> = serde_json::from_str(&json).expect("a list");
    assert_eq!(findings.len(), page.matches("<tr").count() - 1);
    let failures = findings.iter().find(|finding| finding["check"] == "failures").expect("a finding");
    assert_eq!((&failures["status"], &failures["range"]), (&"warn".into(), &"at most 5 % of the episodes".into()));
    assert_eq!(client.status("/api/runs/1/health").await, StatusCode::NOT_FOUND);
}

/// Figures are read again when the run has grown.
#[tokio::test]
async fn health_follows_a_run_in_progress() {
    let mut runs = Runs::new();
    let run = runs.add_stopped("live", &run_file(3), &[episode(0, 0, 0), episode(0, 0, 1)]);
    let client = runs.page();
    assert_holds(&client.get("/runs/0/health").await, &["of 2 episodes", r#"data-events="/events?run=0""#]);
    run.episodes().expect("the store opens").append(&episode(0, 0, 2)).expect("appended");
    let is_new = |page: &str| page.contains("of 3 episodes");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_new(&client.get("/runs/0/health").await) {
        assert!(std::time::Instant::now() < deadline, "the page stays as it was");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn kept_comparisons_of_versions_are_shown() {
    let runs = Runs::one();
    let client = runs.page();
    assert_lacks(&client.get("/runs/0/rewards").await, &["Compared versions"]);
    comparison("match@1.0.0").keep(runs.path(0)).expect("kept");
    let page = client.get("/runs/0/rewards").await;
    assert_holds(
        &page,
        &[
            "<h3>A: match@1.0.0, B: match@1.0.0 price=1</h3>",
            "15 scores of both, 14 equal; rank correlation 0.125; 3 of 24 pairs",
            "; B failed to score 1.",
            r#"<tr><th scope="row">total</th><td class="number">0.5</td><td class="number">–</td></tr>"#,
            r#"<th scope="row">match@1.0.0</th><td class="number">0.375</td><td class="number">–</td>"#,
            r#"<a href="/runs/0/episodes/1.train.0.0.1.0">1.train.0.0.1.0</a></th><td class="number">0.75</td>"#,
            "entry 3: match@1.0.0",
            "failed: match@1.0.0",
        ],
    );
}

#[tokio::test]
async fn other_addresses_are_not_found() {
    let runs = Runs::one();
    let client = runs.page();
    for path in ["/nothing", "/runs/1/episodes", "/runs/x/episodes", "/runs/0/episodes/1.train.9.9.9.0"] {
        assert_eq!(client.status(path).await, StatusCode::NOT_FOUND, "{path}");
    }
    let asset = client.send("GET", "/assets/page.js", &[("host", &client.host)]).await;
    assert_eq!(asset.headers["content-type"], "text/javascript; charset=utf-8");
}

#[tokio::test]
async fn a_damaged_part_is_named_and_the_rest_still_works() {
    let runs = Runs::one();
    let part = runs.path(0).join("episodes/part-000001.parquet");
    let mut bytes = std::fs::read(&part).expect("a part");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&part, bytes).expect("written");
    let client = runs.page();
    let answer = client.send("GET", "/runs/0/episodes", &[("host", &client.host)]).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_holds(&answer.body, &["part-000001.parquet", "the checksum is missing or wrong"]);
    client.get("/settings").await;
}
