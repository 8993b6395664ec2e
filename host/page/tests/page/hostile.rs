//! Content of agents and plugins that tries to become markup, script, or another address.

use std::io::Write as _;

use axum::http::StatusCode;
use gymkhana_record::{
    AgentRun, Boundary, Call, CallSite, EpisodeRecord, Evidence, Failure, FailureKind, Function, LogEntry, LogLevel,
    Media, NamedValue, Part, SeatFunctions, Turn, Value,
};

use crate::fixture::{Runs, assert_holds, assert_lacks, comparison, episode, run_file};

/// Ends every kind of HTML text and begins a script.
const ATTACK: &str =
    "\"'></pre></title></style><script>pwned=alert(1)</script><img src=x onerror=pwned=alert(2)>\u{202e}<!--";

/// An episode in which every text that others write is the attack.
pub fn hostile() -> EpisodeRecord {
    let attack = || ATTACK.to_owned();
    let mut record = episode(0, 0, 0);
    record.environment = Some(attack());
    record.task.split = attack();
    let say = || vec![Part::Text(attack()), Part::Other(Media { mime: attack(), bytes: vec![1] })];
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(3)'><script>alert(4)</script></svg>".to_vec();
    record.turns = vec![
        Turn::Message { seat: 0, content: say() },
        Turn::Call { seat: 0, call: Call { id: attack(), name: attack(), arguments: attack() }, cost: 1.0 },
        Turn::MalformedCall { seat: 0, id: attack(), text: attack() },
        Turn::Answer { seat: 0, id: attack(), content: say(), failed: true },
        Turn::Observation {
            seat: 0,
            content: vec![Part::Image(Media { mime: "image/svg+xml".to_owned(), bytes: svg })],
        },
    ];
    record.policy_turns[0].note = Some(attack());
    record.policy_turns[0].state = Some(attack());
    record.scores[0].plugin = attack();
    record.scores[0].scores[0].components[0].name = attack();
    let fact = NamedValue { name: attack(), value: Value::Text(attack()) };
    (record.extras, record.views, record.privileged) = (vec![fact.clone()], vec![fact.clone()], vec![fact]);
    let at = Boundary::Tool(attack());
    let site = CallSite::tool(ATTACK);
    record.logs =
        vec![LogEntry { at: at.clone(), call_site: site.clone(), seat: None, level: LogLevel::Warn, text: attack() }];
    record.failures = vec![Failure { at, kind: FailureKind::Trap, call_site: site, message: attack() }];
    let function = Function { name: attack(), description: attack(), parameters: attack(), cost: 0.0 };
    record.opening.functions = vec![SeatFunctions { seat: 0, functions: vec![function] }];
    record.agent = Some(AgentRun { answer: Some(attack()), stderr: attack(), ..AgentRun::default() });
    record.unsandboxed = vec![attack()];
    record.hint = Some(say());
    record.guidance = Some(say());
    record
}

fn runs() -> Runs {
    let mut runs = Runs::new();
    let file = format!("{}name = {}\n", run_file(1), serde_json::json!(ATTACK.replace('\u{202e}', "")));
    runs.add("<b>run", &file, &[hostile(), episode(0, 0, 1)]);
    runs
}

/// A page without the values of its form fields, which hold names as they are and are not shown.
fn without_values(page: &str) -> String {
    let mut parts = page.split(" value=\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('"').map_or("", |(_, rest)| rest))
}

#[tokio::test]
async fn texts_stay_texts_on_every_page() {
    let runs = runs();
    comparison(ATTACK).keep(runs.path(0)).expect("kept");
    let client = runs.page();
    let text = ATTACK.replace('<', "%3C").replace('"', "%22").replace('>', "%3E");
    let text = text.replace('\u{202e}', "").replace(' ', "+");
    for path in [
        "/".to_owned(),
        "/settings".to_owned(),
        "/runs/0/episodes".to_owned(),
        format!("/runs/0/episodes?environment={text}&text={text}"),
        "/runs/0/episodes/1.train.0.0.0.0".to_owned(),
        "/runs/0/groups/1.train.0.0".to_owned(),
        "/runs/0/rewards".to_owned(),
        "/runs/0/health".to_owned(),
    ] {
        let page = client.get(&path).await;
        let shown = without_values(&page);
        assert_lacks(&shown, &["<script>", "<img src=x", "<b>run", "\u{202e}", "<svg xmlns", "<!--"]);
        // The page has one script element, its own file.
        assert_eq!(page.matches("<script").count(), 1, "{path}");
        assert_lacks(&page, &["style=\"", " onerror=\"", " onload=\"", "javascript:"]);
    }
    let page = client.get("/runs/0/episodes/1.train.0.0.0.0").await;
    assert_holds(
        &page,
        &[
            "&lt;script&gt;pwned=alert(1)&lt;/script&gt;",
            "\\u{202e}",
            r#"<img class="render" src="data:image/svg+xml;base64,"#,
        ],
    );
}

#[tokio::test]
async fn texts_of_an_address_stay_texts_in_the_answer() {
    let runs = runs();
    let client = runs.page();
    for path in [
        "/runs/0/episodes?stage=%3Cscript%3Ealert(1)%3C/script%3E",
        "/runs/0/episodes/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/runs/%3Cscript%3E/episodes",
        "/runs/0/groups/%22%3E%3Cscript%3E",
        "/?run=%3Cscript%3E",
    ] {
        let answer = client.send("GET", path, &[("host", &client.host)]).await;
        assert!(answer.status.is_client_error(), "{path}: {}", answer.status);
        assert_lacks(&answer.body, &["<script>"]);
        assert_holds(&answer.body, &["&lt;script&gt;"]);
    }
}

#[tokio::test]
async fn every_answer_forbids_what_the_page_does_not_use() {
    let runs = runs();
    let client = runs.page();
    for path in ["/", "/runs/0/episodes/1.train.0.0.0.0", "/nothing", "/assets/page.css"] {
        let answer = client.send("GET", path, &[("host", &client.host)]).await;
        let policy = answer.headers["content-security-policy"].to_str().expect("text");
        let rules: Vec<&str> = policy.split("; ").collect();
        for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src data:", "base-uri 'none'"]
        {
            assert!(rules.contains(&rule), "{policy}");
        }
        assert!(rules.contains(&"frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "same-origin");
    }
    // Neither the style sheet nor the script names another server.
    for path in ["/assets/page.css", "/assets/page.js"] {
        let asset = client.get(path).await.replace("http://www.w3.org/2000/svg", "");
        assert_lacks(&asset, &["http://", "https://", "@import", "innerHTML", "eval("]);
    }
}

#[tokio::test]
async fn addresses_lead_to_no_file() {
    let runs = runs();
    let secret = runs.path(0).parent().expect("a parent").join("secret");
    std::fs::File::create(&secret).and_then(|mut file| file.write_all(b"hunter2")).expect("a file");
    let client = runs.page();
    for path in [
        "/assets/../secret",
        "/assets/..%2f..%2fsecret",
        "/assets/%2e%2e/secret",
        "/runs/0/episodes/..%2f..%2f..%2fsecret",
        "/runs/..%2f..%2fsecret/episodes",
        "/runs/0/groups/..%2f..%2fsecret",
        "/runs/0/../../secret",
        "//secret",
        "/run.toml",
        "/runs/0/run.toml",
    ] {
        let answer = client.send("GET", path, &[("host", &client.host)]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert_lacks(&answer.body, &["hunter2"]);
    }
    client.get("/assets/page.css").await;
}

#[tokio::test]
async fn the_replay_command_is_one_word_per_argument() {
    let mut runs = Runs::new();
    runs.add("$(touch x); 'run'", &run_file(1), &[episode(0, 0, 0)]);
    let page = runs.page().get("/runs/0/episodes/1.train.0.0.0.0").await;
    let folder = runs.path(0).parent().expect("a parent").display().to_string();
    assert_holds(&page, &[&format!("host replay '{folder}/$(touch x); '\\''run'\\''' --episode 1.train.0.0.0.0")]);
}

#[tokio::test]
async fn numbers_outside_of_every_range_are_shown() {
    let mut runs = Runs::new();
    let mut record = episode(0, 0, 0);
    record.policy_turns[0].seat = u32::MAX;
    record.policy_turns[0].turn = u32::MAX;
    record.policy_turns[1].transcript = u32::MAX;
    record.rewards = vec![f64::MAX, f64::MIN, 5e-324];
    record.scores[0].scores[0].total = -f64::MAX;
    record.scores[0].scores[0].evidence[0] = Evidence { turn: 3, start: u32::MAX, end: 1, note: String::new() };
    record.timing.total_ms = f64::MAX;
    runs.add("first", &run_file(1), &[record, episode(0, 0, 1)]);
    let client = runs.page();
    for path in
        ["/", "/runs/0/episodes", "/runs/0/episodes/1.train.0.0.0.0", "/runs/0/groups/1.train.0.0", "/runs/0/health"]
    {
        client.get(path).await;
    }
    client.get("/runs/0/rewards").await;
    client.get("/?from=nan&to=inf").await;
    client.get("/runs/0/episodes?reward_min=nan&size=18446744073709551615").await;
    client.get("/runs/0/episodes/1.train.0.0.0.0?first_token=18446744073709551615").await;
}
