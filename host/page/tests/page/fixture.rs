//! Small runs on disk, and a client of the page's routes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use gymkhana_page::{Access, AccessToken, router};
use gymkhana_record::step_metrics::rl;
use gymkhana_record::{
    Boundary, Call, CallSite, Component, Ending, EpisodeId, EpisodeRecord, Evidence, Failure, FailureKind, NamedValue,
    Part, Phase, PluginScore, PolicyTurn, Sampled, Score, Seed, Segment, StepMetrics, TaskRef, Turn, Value,
};
use gymkhana_store::{
    ComparedEpisode, RewardComparison, RunFolder, RunSummary, ScoreOutcome, Sides, StageSummary, SummaryStats,
};
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use tower::ServiceExt as _;

/// Token of the pages that need one.
pub const TOKEN: &str = "0123456789abcdef-0";

/// The run file of a test's run.
pub fn run_file(steps: u32) -> String {
    format!(
        "seed = 1\n[policy]\nlora = 8\n[[stages]]\nname = \"warm-up\"\nkind = \"sft\"\nsteps = {steps}\n[[stages]]\nkind = \"rl\"\n"
    )
}

/// Id of a training episode of the second stage.
pub fn id(step: u64, group: u32, member: u32) -> EpisodeId {
    EpisodeId { stage: 1, phase: Phase::Train, step, group, member, attempt: 0 }
}

/// An episode with a call, tokens, a score and a privileged fact. Its reward is a tenth of its member's number.
pub fn episode(step: u64, group: u32, member: u32) -> EpisodeRecord {
    let task = TaskRef { split: "train".to_owned(), index: step };
    let mut record = EpisodeRecord::new(id(step, group, member), task, Seed(7), Ending::Terminated);
    let call = Call { id: "call-0".to_owned(), name: "add".to_owned(), arguments: r#"{"a":1,"b":2}"#.to_owned() };
    let say = |text: &str| vec![Part::Text(text.to_owned())];
    record.turns = vec![
        Turn::Observation { seat: 0, content: say("What is 1 + 2?") },
        Turn::Call { seat: 0, call, cost: 0.0 },
        Turn::Answer { seat: 0, id: "call-0".to_owned(), content: say("three"), failed: false },
        Turn::Message { seat: 0, content: say(&format!("It is 3, says member {member}.")) },
    ];
    let reply = |turn: u32, transcript: u32| PolicyTurn {
        seat: 0,
        turn,
        transcript,
        steps: 0,
        state: None,
        probe_score: None,
        thought_tokens: 0,
        note: None,
    };
    record.policy_turns = vec![reply(0, 1), reply(1, 3)];
    let mut segment = Segment::new(0);
    segment.append_given(&[11, 12], 0);
    let sampled =
        Sampled { tokens: vec![21, 22], log_probs: vec![-0.5, -4.0], entropies: vec![0.5, 1.0], versions: vec![3, 3] };
    segment.append_sampled(&sampled, 0).expect("even columns");
    record.segments = vec![segment];
    let reward = f64::from(member) / 10.0;
    let components = vec![Component { name: "correct".to_owned(), value: reward }];
    // The digit in "It is 3, …".
    let evidence = vec![Evidence { turn: 3, start: 6, end: 7, note: "the number".to_owned() }];
    let score = Score { seat: 0, total: reward, components, turns: vec![], evidence };
    record.scores = vec![PluginScore { plugin: "match".to_owned(), scores: vec![score] }];
    record.rewards = vec![reward];
    record.success = member >= 2;
    record.privileged = vec![NamedValue { name: "solution".to_owned(), value: Value::Text("the number 3".to_owned()) }];
    record
}

/// A comparison of two versions of a reward with one difference, in which every text is `text`.
pub fn comparison(text: &str) -> RewardComparison {
    let own = || text.to_owned();
    let evidence = vec![Evidence { turn: 3, start: 6, end: 7, note: own() }];
    let components = vec![Component { name: own(), value: 0.25 }];
    let score = Score { seat: 0, total: 0.75, components, turns: vec![], evidence };
    let [a, b] = [ScoreOutcome::Scored(score), ScoreOutcome::Failed { failed: own() }];
    RewardComparison {
        versions: [own(), format!("{text} price=1")],
        scored: 15,
        failed: Sides { a: 0, b: 1 },
        equal: 14,
        a: Some(SummaryStats { mean: 0.5, deviation: 0.0, quartiles: [0.5; 5] }),
        b: None,
        rank_correlation: Some(0.125),
        reordered_pairs: 3,
        pairs: 24,
        components: [(own(), Sides { a: Some(0.375), b: None })].into(),
        worst: vec![ComparedEpisode { episode: id(0, 0, 1).to_string(), a, b }],
    }
}

/// An episode that failed at a tool.
pub fn failed_episode(step: u64, member: u32) -> EpisodeRecord {
    let mut record = episode(step, 0, member);
    record.failures.push(Failure {
        at: Boundary::Tool("sql".to_owned()),
        kind: FailureKind::Trap,
        call_site: CallSite::tool("call-0"),
        message: "the guest panicked".to_owned(),
    });
    record
}

/// Results of a stage.
fn stage(name: &str) -> StageSummary {
    StageSummary {
        name: name.to_owned(),
        success_before: Some(0.25),
        success_after: Some(0.75),
        success_before_sampled: None,
        success_after_sampled: None,
        environments: std::collections::BTreeMap::new(),
        evaluations: vec![],
        stopped_after: None,
        idle_steps: 0,
        episodes: 16,
        tokens: 32,
        seconds: 61.0,
    }
}

/// Runs on disk.
pub struct Runs {
    folder: TempDir,
    paths: Vec<PathBuf>,
}

impl Runs {
    /// A folder without runs.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), paths: vec![] }
    }

    /// A run with ten steps and two groups of four episodes in each of two steps; one of them in the journal.
    pub fn one() -> Self {
        let mut runs = Self::new();
        let mut episodes: Vec<EpisodeRecord> =
            (0..16).map(|number| episode(number / 8, number as u32 / 4 % 2, number as u32 % 4)).collect();
        episodes[5] = failed_episode(0, 9);
        runs.add("first", &run_file(3), &episodes);
        runs
    }

    /// Adds a finished run with these episodes.
    pub fn add(&mut self, name: &str, run_file: &str, episodes: &[EpisodeRecord]) -> RunFolder {
        let run = self.add_unfinished(name, run_file, episodes);
        let summary = RunSummary {
            schema: gymkhana_store::SUMMARY_SCHEMA,
            stages: vec![stage("rl")],
            success: Some(0.75),
            success_sampled: None,
            seconds: 61.0,
        };
        run.write_summary(&summary).expect("a summary");
        run
    }

    /// Adds a run whose first stage has ended.
    pub fn add_stopped(&mut self, name: &str, run_file: &str, episodes: &[EpisodeRecord]) -> RunFolder {
        let run = self.add_unfinished(name, run_file, episodes);
        let finished = [stage("warm-up")];
        run.write_state(&serde_json::json!({ "progress": { "stage": 1, "finished": finished } })).expect("a state");
        run
    }

    fn add_unfinished(&mut self, name: &str, run_file: &str, episodes: &[EpisodeRecord]) -> RunFolder {
        let path = self.folder.path().join(name);
        let run = RunFolder::create(&path, run_file).expect("a run");
        let mut store = run.episodes().expect("the store opens");
        let (last, others) = episodes.split_last().expect("an episode");
        for record in others {
            assert!(store.append(record).expect("appended"), "{} twice", record.id);
        }
        store.commit().expect("a part");
        store.append(last).expect("appended");
        let mut metrics = run.metrics().expect("metrics");
        for step in 0..10 {
            add_step(&mut metrics, step);
        }
        self.paths.push(path);
        run
    }

    /// Path of a run.
    pub fn path(&self, run: usize) -> &Path {
        &self.paths[run]
    }

    /// The page on a loopback address, without a token.
    pub fn page(&self) -> Client {
        self.page_at("127.0.0.1:8123", None)
    }

    /// The page at an address.
    pub fn page_at(&self, address: &str, token: Option<&str>) -> Client {
        let address: SocketAddr = address.parse().expect("an address");
        let token = token.map(|token| AccessToken::new(token).expect("a token"));
        let access = Access::new(address, token).expect("access");
        Client { router: router(&self.paths, access, None).expect("a router"), host: address.to_string() }
    }
}

/// Appends the values of a step.
pub fn add_step(metrics: &mut gymkhana_store::Metrics, step: u64) {
    let share = step as f64 / 10.0;
    let values = StepMetrics::from([(rl::SUCCESS, share), (rl::REWARD, share - 0.5), (rl::LOSS, 2.0 - share)]);
    metrics.append(1, step, &values).expect("a line");
}

/// A client of the routes.
pub struct Client {
    pub router: Router,
    pub host: String,
}

/// An answer.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Client {
    /// Sends a request with these headers.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let answer = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).expect("UTF-8") }
    }

    /// Fetches a page that must exist.
    pub async fn get(&self, path: &str) -> String {
        let answer = self.send("GET", path, &[("host", &self.host)]).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        answer.body
    }

    /// Status of a page.
    pub async fn status(&self, path: &str) -> StatusCode {
        self.send("GET", path, &[("host", &self.host)]).await.status
    }
}

/// Asserts that a page holds texts.
#[track_caller]
pub fn assert_holds(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "`{text}` is not in the page:\n{page}");
    }
}

/// Asserts that a page lacks texts.
#[track_caller]
pub fn assert_lacks(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(!page.contains(text), "`{text}` is in the page:\n{page}");
    }
}
