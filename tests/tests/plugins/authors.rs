//! Plugins in Python and JavaScript, built from the templates: each kind is played and scored like one in Rust.

use std::sync::{Arc, Mutex, OnceLock};

use gymkhana_record::{
    Call, Ending, HttpResponse, ModelReply, NamedValue, Part, Question, Refused, Reply, Seed, TaskRef, Turn, Value,
    text_of,
};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{
    Action, Advice, Assets, CompilerEffort, EnvironmentEpisode, Grants, LoadError, LogLine, LogSink, OptionalInterface,
    Outbound, OutboundFuture, Plugin, Quota, Sandbox, SandboxConfig, ToolSession, Trajectory, score,
};
use gymkhana_tests::{compiled, component};
use serde_json::json;

/// Languages of the templates, built as `guest-python-tool` and so on.
const LANGUAGES: [&str; 2] = ["python", "js"];

/// Shared, so that each component is compiled once, and quickly: they contain the runtimes of their languages.
fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    let effort = CompilerEffort::Quick;
    let cache = Some(compiled());
    let config = SandboxConfig { cache, max_instances: Some(64), effort, ..SandboxConfig::default() };
    SANDBOX.get_or_init(|| Sandbox::new(&config).expect("a sandbox"))
}

fn load(language: &str, kind: &str) -> Plugin {
    let name = format!("guest-{language}-{kind}");
    Plugin::load(sandbox(), &component(&name), &Grants::default()).expect("a sound plugin")
}

fn task(index: u64) -> TaskRef {
    TaskRef { split: "train".to_owned(), index }
}

fn words(text: &str) -> Vec<Part> {
    vec![Part::Text(text.to_owned())]
}

fn option(name: &str, value: Value) -> NamedValue {
    NamedValue { name: name.to_owned(), value }
}

async fn start(plugin: &Plugin, seed: u64) -> EnvironmentEpisode {
    EnvironmentEpisode::start(plugin, &task(0), &[], Seed(seed)).await.expect("an episode").0
}

/// Plays the oracle's move and returns its result.
async fn expert(episode: &mut EnvironmentEpisode) -> (String, f64, bool) {
    let Advice::Message(advice) = episode.advise(&[], &[]).await.expect("an expert") else { panic!("a message") };
    let stepped = episode.step(0, Action::Message(&words(&advice))).await.expect("a step");
    (text_of(&stepped.observations[0].1), stepped.rewards[0].1, stepped.terminated)
}

#[tokio::test]
async fn an_environment_is_played_forked_and_read() {
    for language in LANGUAGES {
        let plugin = load(language, "environment");
        let all = [
            OptionalInterface::Snapshot,
            OptionalInterface::StateKey,
            OptionalInterface::Privileged,
            OptionalInterface::Oracle,
            OptionalInterface::Guidance,
            OptionalInterface::Render,
        ];
        assert!(all.into_iter().all(|optional| plugin.offers(optional)), "{language}");
        let (mut episode, started) =
            EnvironmentEpisode::start(&plugin, &task(0), &[option("guesses", Value::Integer(9))], Seed(1))
                .await
                .expect("a good option");
        let shown = "I think of a number from 1 to 100. You have 9 guesses.";
        assert_eq!(text_of(&started.opening.observations[0].1), shown);
        // An answer that is not a number costs no reward.
        let stepped = episode.step(0, Action::Message(&words("seven"))).await.expect("a step");
        assert_eq!(text_of(&stepped.observations[0].1), "Answer with a whole number and nothing else.");
        expert(&mut episode).await;
        let saved = episode.snapshot().await.expect("a snapshot");
        let mut twin = EnvironmentEpisode::restore(&plugin, &saved, Seed(1)).await.expect("its own snapshot");
        assert_eq!(twin.state_key().await, episode.state_key().await);
        loop {
            let (one, other) = (expert(&mut episode).await, expert(&mut twin).await);
            assert_eq!(one, other, "{language}");
            if one.2 {
                assert_eq!((one.0.as_str(), one.1), ("Right!", 1.0));
                break;
            }
        }
        assert!(episode.step(0, Action::Message(&words("1"))).await.is_err(), "no step after the end");
        let options = [option("higest", Value::Integer(9))];
        let refused = EnvironmentEpisode::start(&plugin, &task(0), &options, Seed(1)).await;
        let message = refused.err().expect("there is no such option").message;
        assert!(message.contains("the nearest known one is `highest`"), "{language}: {message}");
    }
}

/// Both languages draw the same numbers from the same seeds, so that equal tasks have equal secrets.
#[tokio::test]
async fn equal_tasks_are_equal_in_every_language_and_instance() {
    let mut secrets = Vec::new();
    for language in LANGUAGES {
        for seed in [1, 2] {
            let mut episode = start(&load(language, "environment"), seed).await;
            let privileged = episode.privileged().await.expect("a privileged view");
            secrets.push(privileged[0].value.clone());
        }
    }
    // hash64("train/0") through SplitMix64 and Lemire's multiplication, below 100, as the Rust SDK computes it.
    let mut rng = gymkhana_sdk::Rng::new(gymkhana_sdk::hash(b"train/0"));
    let mut numbers = std::iter::repeat_with(|| rng.between(1, 100));
    let secret = numbers.find(|number| number % 3 != 0).expect("every third number belongs to another split");
    assert_eq!(secrets, vec![Value::Text(secret.to_string()); 4]);
}

#[tokio::test]
async fn a_tool_keeps_state_and_is_saved_and_viewed() {
    for language in LANGUAGES {
        let plugin = load(language, "tool");
        let functions = plugin.functions(&[]).await.expect("functions");
        let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["write", "read"], "{language}");
        let call = |name: &str, arguments: serde_json::Value| Call {
            id: "1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        let setup = br#"{"a": "\u00e9"}"#;
        let mut session = ToolSession::open(&plugin, Some(setup), &[], Seed(1)).await.expect("a session");
        let answer = session.call(&call("read", json!({"name": "a"}))).await.expect("an answer");
        assert_eq!((answer.failed, text_of(&answer.content).as_str()), (false, "é"), "{language}");
        // A long text is passed unchanged.
        let long = "0123456789".repeat(10_000);
        session.call(&call("write", json!({"name": "b", "text": long}))).await.expect("an answer");
        let saved = session.snapshot().await.expect("a snapshot");
        let mut twin = ToolSession::restore(&plugin, &saved, Seed(1)).await.expect("its own snapshot");
        let answer = twin.call(&call("read", json!({"name": "b"}))).await.expect("an answer");
        assert_eq!(text_of(&answer.content), long, "{language}");
        let answer = twin.call(&call("read", json!({"nam": "b"}))).await.expect("an answer");
        assert!(answer.failed && text_of(&answer.content) == "argument `name` is missing; given: nam", "{language}");
        let nested = Call { arguments: "[".repeat(100_000), ..call("read", json!({})) };
        assert!(twin.call(&nested).await.is_ok_and(|answer| answer.failed), "{language}: deep nesting is no trap");
        assert_eq!(twin.final_view().await, Ok(vec![option("notes", Value::Integer(2))]), "{language}");
        let refused = ToolSession::open(&plugin, Some(b"[1]"), &[], Seed(1)).await.err().expect("no such setup");
        assert!(refused.message.contains("JSON object of notes"), "{language}: {refused:?}");
    }
}

#[tokio::test]
async fn a_reward_scores_a_group_with_its_evidence() {
    for language in LANGUAGES {
        let plugin = load(language, "reward");
        assert!(plugin.manifest().reward_range.is_some_and(|range| (range.low, range.high) == (0.0, 1.0)));
        let privileged = [option("answer", Value::Text("42".to_owned()))];
        let message = |text: &str| vec![Turn::Message { seat: 0, content: words(text) }];
        let turns = [message("é42"), message("41"), vec![]];
        let task = task(0);
        let group: Vec<Trajectory<'_>> = turns
            .iter()
            .map(|turns| Trajectory {
                task: &task,
                turns,
                ending: Ending::Terminated,
                environment_rewards: &[],
                extras: &[],
                privileged: &privileged,
                views: &[],
            })
            .collect();
        let scores = score(&plugin, &group, &[], 0, Seed(1)).await.expect("scores");
        let totals: Vec<Vec<f64>> = scores.iter().map(|seats| seats.iter().map(|seat| seat.total).collect()).collect();
        assert_eq!(totals, [vec![1.0], vec![0.0], vec![]], "{language}");
        // Two bytes of UTF-8 precede the answer.
        let evidence = &scores[0][0].evidence[0];
        assert_eq!((evidence.turn, evidence.start, evidence.end), (0, 2, 4), "{language}");
        let bare = Trajectory { privileged: &[], ..group[0] };
        let refused = score(&plugin, &[bare], &[], 0, Seed(1)).await.expect_err("there is no answer");
        assert!(refused.message.contains("privileged text `answer`"), "{language}: {refused:?}");
    }
}

/// A component is built by running it; random state from the build must not be part of every instance.
#[tokio::test]
async fn a_javascript_engine_uses_the_hosts_randomness_and_clocks() {
    let plugin = load("js", "engine");
    let ask = async |name: &str, seed: u64| {
        let mut session = ToolSession::open(&plugin, None, &[], Seed(seed)).await.expect("a session");
        let call = Call { id: "1".to_owned(), name: name.to_owned(), arguments: "{}".to_owned() };
        let answer = session.call(&call).await.expect("an answer");
        serde_json::from_str::<serde_json::Value>(&text_of(&answer.content)).expect("JSON")
    };
    let first = ask("draw", 1).await;
    assert_eq!(first, ask("draw", 1).await, "equal seeds draw equal numbers");
    let other = ask("draw", 2).await;
    assert!((0..3).all(|place| first[place] != other[place]), "{first} {other}");
    assert_ne!(first[0], first[1]);
    assert_eq!(first[3], other[3], "a number drawn at build time is constant");
    let clocks = ask("time", 1).await;
    assert_eq!(clocks, ask("time", 1).await);
    // The virtual clock starts at 2000-01-01 and advances with every reading.
    assert_eq!(clocks[0][0].as_f64().map(|milliseconds| milliseconds.floor()), Some(946_684_800_000.0), "{clocks}");
    assert!((1..3).all(|clock| clocks[0][clock].as_f64() < clocks[1][clock].as_f64()), "{clocks}");
}

/// Collects the messages of a plugin's log.
#[derive(Default)]
struct Collected(Mutex<Vec<String>>);

impl Collected {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

impl LogSink for Collected {
    fn write(&self, lines: Vec<LogLine>) {
        self.0.lock().expect("no panic").extend(lines.into_iter().map(|line| line.message));
    }
}

/// Answers a model call with its question, and echoes a request.
struct Echo;

impl Outbound for Echo {
    fn quota(&self) -> Quota {
        Quota::default()
    }

    fn ask<'a>(&'a self, question: &'a Question, _earlier: u32) -> OutboundFuture<'a, Reply> {
        let reply = match question {
            Question::Model(request) => Reply::Model(ModelReply {
                text: request.messages.iter().map(|message| text_of(&message.content)).collect::<Vec<_>>().join("|"),
                cut: request.stop == ["."],
                prompt_tokens: request.max_tokens,
                completion_tokens: 2,
            }),
            Question::Http(request) => Reply::Http(HttpResponse {
                status: 201,
                headers: request.headers.clone(),
                body: [request.method.as_bytes(), b" ", request.url.as_bytes(), b" ", &request.body].concat(),
            }),
            Question::Tool(_) => Reply::Refused(Refused::Denied("no tool".to_owned())),
        };
        Box::pin(async move { Ok(reply) })
    }
}

#[tokio::test]
async fn granted_capabilities_work_and_others_are_denied() {
    for language in ["python-asking", "js-asking", "python-quick", "js-quick"] {
        let path = component(&format!("guest-{language}"));
        let load = |granted: &[Capability]| Plugin::load(sandbox(), &path, &Grants(granted.iter().copied().collect()));
        let all = [Capability::Assets, Capability::Model, Capability::Http];
        assert!(matches!(load(&all[..2]), Err(LoadError::Refused { .. })), "{language}: http is not granted");
        let bare = load(&all).expect("a sound plugin");
        let assets: Assets = [("words".to_owned(), b"abcd".as_slice().into())].into_iter().collect();
        let plugin = bare.with_assets(assets).with_outbound(Arc::new(Echo));
        let ask = async |plugin: &Plugin, name: &str| {
            let log = Arc::new(Collected::default());
            let plugin = plugin.with_log_sink(Arc::clone(&log) as Arc<dyn LogSink>);
            let mut session = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
            let call = Call { id: "1".to_owned(), name: name.to_owned(), arguments: "{}".to_owned() };
            let answer = text_of(&session.call(&call).await.expect("an answer").content);
            assert_eq!(log.take(), [format!("asked to {name}")], "{language}");
            answer
        };
        for (name, answer) in [
            ("read", r#"[[["words",4]],"bc"]"#),
            ("complete", r#"["be kind|hello",true,50]"#),
            ("send", r#"[201,[["x-y","z"]],"POST http://a.b/c body"]"#),
            ("unknown", "NotFound: no asset is mounted as `nothing`; mounted: `words`"),
        ] {
            assert_eq!(ask(&plugin, name).await, answer, "{language}");
        }
        let denied = ask(&bare, "complete").await;
        assert!(denied.starts_with("Denied: "), "{language}: {denied}");
    }
}

/// Number of the line of a file that contains this text, from 1.
fn line_of(path: &str, text: &str) -> usize {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign_plugins").join(path);
    let source = std::fs::read_to_string(path).expect("the plugin's source");
    1 + source.lines().position(|line| line.contains(text)).expect("the line")
}

#[tokio::test]
async fn an_exception_names_the_authors_line_and_function() {
    let all = Grants([Capability::Assets, Capability::Model, Capability::Http].into());
    let python = ("plugin.py", "AttributeError: 'NoneType' object has no attribute 'length'");
    let js = ("plugin.mjs", "TypeError: ");
    for (language, build, (file, error)) in
        [("python", "asking", python), ("js", "asking", js), ("python", "quick", python), ("js", "quick", js)]
    {
        let path = component(&format!("guest-{language}-{build}"));
        let log = Arc::new(Collected::default());
        let plugin = Plugin::load(sandbox(), &path, &all).expect("a sound plugin");
        let plugin = plugin.with_outbound(Arc::new(Echo)).with_log_sink(Arc::clone(&log) as Arc<dyn LogSink>);
        let mut session = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
        let call = Call { id: "1".to_owned(), name: "crash".to_owned(), arguments: "{}".to_owned() };
        let failure = session.call(&call).await.expect_err("an exception");
        let line = line_of(&format!("{language}-asking/{file}"), "return nothing.length");
        let said = format!("uncaught exception: {file}:{line} in helper: {error}");
        assert!(failure.message.starts_with(&said), "{language}: {failure}");
        let runtime = ["wasm", "unreachable", "panicked", "gymkhana_sdk", "initializer.js"];
        assert!(!runtime.iter().any(|word| failure.message.contains(word)), "{language}: {failure}");
        let log = log.take().join("\n");
        assert!(!log.contains("initializer.js") && !log.contains("mozalloc_abort"), "{language}: {log}");
        assert!(log.contains(file) && log.contains("helper") && log.contains("crash"), "{language}: {log}");
    }
}
