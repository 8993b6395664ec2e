//! Capabilities: a granted one works, and a missing grant is refused with the line that would add it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::common::{call, component, config, load, text_of};
use gymkhana_record::{Call, FailureKind, ModelReply, Question, Reply, Seed};
use gymkhana_registry::{Capability, Digest};
use gymkhana_sandbox::{
    Assets, CallError, Grants, Limits, Outbound, OutboundError, OutboundFuture, Plugin, Quota, Sandbox, SandboxConfig,
    ToolOutput, ToolSession,
};

const GUEST: &str = "guest-asking-tool";

fn all_but(missing: Option<Capability>) -> Grants {
    let all = [Capability::Assets, Capability::Model, Capability::Http];
    Grants(all.into_iter().filter(|capability| Some(*capability) != missing).collect())
}

fn guest(sandbox: &Sandbox) -> Plugin {
    Plugin::load(sandbox, &component(GUEST), &all_but(None)).expect("granted all that it asks for")
}

/// One for all tests, so that each component is compiled once.
fn sandbox() -> Sandbox {
    static SHARED: OnceLock<Sandbox> = OnceLock::new();
    SHARED.get_or_init(crate::common::sandbox).clone()
}

async fn answer(plugin: &Plugin, call: &Call) -> Result<ToolOutput, CallError> {
    ToolSession::open(plugin, None, &[], Seed(1)).await.expect("a session").call(call).await
}

async fn answer_text(plugin: &Plugin, name: &str, arguments: &str) -> String {
    text_of(&answer(plugin, &call(name, arguments)).await.expect("an answer"))
}

/// Answers a completion after a delay and fails every HTTP request.
struct Slow(Duration);

impl Outbound for Slow {
    fn quota(&self) -> Quota {
        Quota::default()
    }

    fn ask<'a>(&'a self, question: &'a Question, _earlier: u32) -> OutboundFuture<'a, Reply> {
        Box::pin(async move {
            tokio::time::sleep(self.0).await;
            match question {
                Question::Model(request) => Ok(Reply::Model(ModelReply {
                    text: gymkhana_record::text_of(&request.messages[0].content).to_uppercase(),
                    cut: false,
                    prompt_tokens: request.max_tokens,
                    completion_tokens: 2,
                })),
                _ => Err(OutboundError("the cable is cut".to_owned())),
            }
        })
    }
}

#[test]
fn a_missing_grant_is_refused_with_the_line_that_adds_it() {
    let sandbox = sandbox();
    for (capability, line) in [
        (Capability::Assets, "assets = { \"NAME\" = \"FILE\" }"),
        (Capability::Model, "model = \"NAME\""),
        (Capability::Http, "http = [{ allow = \"https://HOST\" }]"),
    ] {
        let grants = all_but(Some(capability));
        let refused = Plugin::load(&sandbox, &component(GUEST), &grants).expect_err("one is missing");
        let why = std::error::Error::source(&refused).expect("with its reason").to_string();
        assert!(why.contains(line) && why.contains("[plugins.guest-asking-tool]"), "{why}");
    }
    let reward = component("guest-asking-reward");
    let tools =
        |granted: &[Capability]| Plugin::load(&sandbox, &reward, &Grants(BTreeSet::from_iter(granted.to_vec())));
    assert!(tools(&[Capability::Model, Capability::Tools]).is_ok());
    let why = std::error::Error::source(&tools(&[Capability::Model]).expect_err("no tools")).map(ToString::to_string);
    assert!(
        why.as_ref().is_some_and(|why| why.contains("`tools = true` under `[plugins.guest-asking-reward]`")),
        "{why:?}"
    );
}

#[tokio::test]
async fn mounted_files_are_read_and_no_others() {
    let sandbox = sandbox();
    let bytes = b"one two three".as_slice();
    let digest = Digest::of(bytes);
    let plugin = guest(&sandbox).with_assets([("words.txt".to_owned(), bytes.into())].into_iter().collect::<Assets>());
    assert_eq!(answer_text(&plugin, "assets", "{}").await, format!("words.txt 13 {digest}"));
    for (arguments, read) in [
        (r#"{"name": "words.txt"}"#, "one two three"),
        (r#"{"name": "words.txt", "offset": 4, "length": 3}"#, "two"),
        (r#"{"name": "words.txt", "offset": 8, "length": 4000000000}"#, "three"),
        (r#"{"name": "words.txt", "offset": 9000000000000000000}"#, ""),
        (
            r#"{"name": "/etc/passwd"}"#,
            "Error::NotFound(\"no asset is mounted as `/etc/passwd`; mounted: `words.txt`\")",
        ),
        (
            r#"{"name": "../words.txt"}"#,
            "Error::NotFound(\"no asset is mounted as `../words.txt`; mounted: `words.txt`\")",
        ),
    ] {
        assert_eq!(answer_text(&plugin, "read", arguments).await, read, "{arguments}");
    }
    let none = r#"Error::NotFound("no asset is mounted as `words.txt`; mounted: nothing")"#;
    assert_eq!(answer_text(&guest(&sandbox), "read", r#"{"name": "words.txt"}"#).await, none);
}

#[tokio::test]
async fn more_of_a_file_than_a_call_may_be_given_ends_the_call() {
    let limits = Limits { result_bytes: 1 << 20, ..Limits::default() };
    let sandbox = Sandbox::new(&SandboxConfig { limits, ..config() }).expect("a sandbox");
    let large = vec![b'x'; 3 << 20];
    let plugin = guest(&sandbox).with_assets([("large".to_owned(), large.into())].into_iter().collect::<Assets>());
    let within = answer_text(&plugin, "read", r#"{"name": "large", "length": 500000}"#).await;
    assert_eq!(within.len(), 500_000);
    let beyond = answer(&plugin, &call("read", r#"{"name": "large", "length": 2000000}"#)).await;
    assert_eq!(beyond.expect_err("too much at once").kind, FailureKind::ResultSize);
}

#[tokio::test]
async fn outbound_calls_work_only_with_a_client() {
    let sandbox = sandbox();
    let asks = |plugin: Plugin| async move { answer_text(&plugin, "complete", r#"{"words": "hello"}"#).await };
    assert_eq!(asks(guest(&sandbox).with_outbound(Arc::new(Slow(Duration::ZERO)))).await, "HELLO (50+2)");
    let refused = asks(guest(&sandbox)).await;
    assert!(refused.starts_with("Error::Denied(\"outbound calls are allowed only during"), "{refused}");
    // The granted client is used only inside an episode, where calls are counted and recorded.
    let unasked = asks(guest(&sandbox).with_granted_outbound(Arc::new(Slow(Duration::ZERO)))).await;
    assert!(unasked.starts_with("Error::Denied"), "{unasked}");
}

#[tokio::test]
async fn a_failed_outbound_call_is_the_hosts_fault() {
    let plugin = guest(&sandbox()).with_outbound(Arc::new(Slow(Duration::ZERO)));
    let error = answer(&plugin, &call("send", r#"{"url": "http://a.b"}"#)).await.expect_err("the cable is cut");
    assert_eq!((error.kind, error.kind.is_hosts()), (FailureKind::Fault, true));
    assert!(error.message.contains("the cable is cut"), "{error}");
}

/// The wait takes three times the wall-clock limit and does not count as the guest's time.
#[tokio::test]
async fn outbound_waits_do_not_count_as_the_guests_time() {
    let limits = Limits { budget: Duration::from_millis(200), wall: Duration::from_millis(300), ..Limits::default() };
    let sandbox = Sandbox::new(&SandboxConfig { limits, ..config() }).expect("a sandbox");
    let plugin = guest(&sandbox).with_outbound(Arc::new(Slow(Duration::from_millis(900))));
    assert_eq!(answer_text(&plugin, "complete", r#"{"words": "late"}"#).await, "LATE (50+2)");
}

#[tokio::test]
async fn in_a_shared_instance_each_session_uses_its_own_client() {
    let sandbox = sandbox();
    let shared = guest(&sandbox).with_shared_instances(8.try_into().expect("not 0"));
    let mut first = ToolSession::open(&shared.with_outbound(Arc::new(Slow(Duration::ZERO))), None, &[], Seed(1))
        .await
        .expect("one");
    let mut second = ToolSession::open(&shared, None, &[], Seed(2)).await.expect("another");
    let ask = call("complete", r#"{"words": "mine"}"#);
    for _ in 0..2 {
        assert_eq!(text_of(&first.call(&ask).await.expect("an answer")), "MINE (50+2)");
        assert!(text_of(&second.call(&ask).await.expect("an answer")).starts_with("Error::Denied"));
    }
}

#[tokio::test]
async fn a_plugin_that_declares_no_capability_runs_without_a_grant() {
    let sandbox = sandbox();
    let calculator = load(&sandbox, "calculator");
    let declared = &calculator.manifest().capabilities;
    assert!(declared.iter().all(|capability| capability.is_free()), "{declared:?}");
    let function = calculator.functions(&[]).await.expect("functions").remove(0).name;
    assert_eq!(answer_text(&calculator, &function, r#"{"expression": "6 * 7"}"#).await, "42");
}
