//! Wrappers: their failures are told apart from those of the environment inside, and the state of both is one.

use std::sync::OnceLock;
use std::time::Duration;

use gymkhana_record::{FailureKind, NamedValue, Seed, Value};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{
    Action, EnvironmentEpisode, Grants, Limits, OptionalInterface, Plugin, Sandbox, SandboxConfig, StepResult,
    WrapError,
};

use crate::common::{component, config, load, option, plugin, text, train};

/// One for most tests, so that each component is compiled once.
fn sandbox() -> Sandbox {
    static SHARED: OnceLock<Sandbox> = OnceLock::new();
    SHARED.get_or_init(crate::common::sandbox).clone()
}

fn wrapper(sandbox: &Sandbox, name: &str) -> Plugin {
    let grants = Grants([Capability::InnerEnvironment].into());
    Plugin::load(sandbox, &component(name), &grants).expect("a wrapper")
}

/// `observe` around `turn-cost` around a slippery lake.
fn two_around_a_lake(sandbox: &Sandbox) -> Plugin {
    let slippery = NamedValue { name: "slippery".to_owned(), value: Value::Flag(true) };
    let lake = load(sandbox, "frozen-lake");
    let cost = wrapper(sandbox, "turn-cost").wrapping(&lake, vec![slippery]).expect("an environment");
    wrapper(sandbox, "observe").wrapping(&cost, vec![option("per", "token")]).expect("another wrapper")
}

async fn start(plugin: &Plugin) -> EnvironmentEpisode {
    EnvironmentEpisode::start(plugin, &train(3), &[], Seed(5)).await.expect("started").0
}

async fn say(episode: &mut EnvironmentEpisode, words: &str) -> StepResult {
    episode.step(0, Action::Message(&text(words))).await.expect("a step")
}

#[tokio::test]
async fn a_wrapper_is_nothing_without_a_grant_or_an_environment() {
    let sandbox = sandbox();
    let refused = Plugin::load(&sandbox, &component("turn-cost"), &Grants::default()).expect_err("not granted");
    let why = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("capability `inner-environment`") && why.contains("wrap = [\"turn-cost\"]"), "{why}");
    let (cost, lake) = (wrapper(&sandbox, "turn-cost"), load(&sandbox, "frozen-lake"));
    let alone = EnvironmentEpisode::start(&cost, &train(0), &[], Seed(1)).await.err().expect("nothing inside");
    assert_eq!(alone.kind, FailureKind::Refused);
    assert!(alone.message.contains("no environment is inside"), "{alone}");
    let info = cost.environment_info().await.expect("a wrapper describes itself");
    assert!(info.summary.starts_with("Any environment") && info.options.iter().any(|option| option.name == "price"));
    assert_eq!(cost.splits(&[]).await.err().map(|error| error.kind), Some(FailureKind::Refused));
    let around = cost.wrapping(&lake, vec![]).expect("an environment");
    assert_eq!(around.environment_info().await.expect("a description").seats, ["agent"]);
    assert_eq!(cost.wrapping(&around, vec![]).err(), Some(WrapError::Twice("turn-cost".to_owned())));
    assert_eq!(lake.wrapping(&cost, vec![]).err(), Some(WrapError::NotAWrapper("frozen-lake".to_owned())));
    let tool = load(&sandbox, "calculator");
    assert_eq!(cost.wrapping(&tool, vec![]).err(), Some(WrapError::NotAnEnvironment("calculator".to_owned())));
    let names: Vec<&str> = around.chain().map(Plugin::name).collect();
    assert_eq!((names, around.innermost().name()), (vec!["turn-cost", "frozen-lake"], "frozen-lake"));
}

#[tokio::test]
async fn a_failure_inside_names_the_plugin_inside_and_costs_the_wrapper_nothing() {
    let limits = Limits { budget: Duration::from_millis(200), wall: Duration::from_secs(20), ..config().limits };
    let sandbox = Sandbox::new(&SandboxConfig { limits, ..config() }).expect("a sandbox");
    let hostile = load(&sandbox, "guest-hostile-environment");
    let cost = wrapper(&sandbox, "turn-cost");
    for (behaviour, kind) in [
        ("loop-step", FailureKind::Budget),
        ("trap-step", FailureKind::Trap),
        ("memory-step", FailureKind::Memory),
        ("nan-reward", FailureKind::Malformed),
    ] {
        let around = cost.wrapping(&hostile, vec![option("behaviour", behaviour)]).expect("an environment");
        let mut episode = start(&around).await;
        let failed = episode.step(0, Action::Message(&text("no"))).await.expect_err(behaviour);
        assert_eq!((failed.kind, failed.inner.as_deref()), (kind, Some("guest-hostile-environment")), "{failed}");
        assert!(
            episode.cost().running_us < 50_000.0,
            "{behaviour} took {} µs of the wrapper",
            episode.cost().running_us
        );
        let inside = episode.take_inner_costs();
        assert_eq!(inside.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["guest-hostile-environment"]);
        let after = episode.step(0, Action::Message(&text("no"))).await.expect_err("its state is lost");
        assert_eq!(after.inner.as_deref(), Some("guest-hostile-environment"));
    }
    // What the plugin inside returns reaches the wrapper, which returns it.
    let around = cost.wrapping(&hostile, vec![option("behaviour", "error-step")]).expect("an environment");
    let mut episode = start(&around).await;
    let returned = episode.step(0, Action::Message(&text("no"))).await.expect_err("an error");
    assert_eq!((returned.kind, returned.inner.as_deref()), (FailureKind::Refused, None));
    assert_eq!(returned.message, "the plugin failed: an error, as asked");
}

#[tokio::test]
async fn a_snapshot_through_two_wrappers_goes_on_as_the_episode_does() {
    let around = two_around_a_lake(&sandbox());
    assert!(around.offers(OptionalInterface::Snapshot) && around.offers(OptionalInterface::StateKey));
    let mut first = start(&around).await;
    for words in ["right", "down"] {
        say(&mut first, words).await;
    }
    let saved = first.snapshot().await.expect("a snapshot");
    // A snapshot outlives its process as text.
    let saved = serde_json::from_str(&serde_json::to_string(&saved).expect("text")).expect("a snapshot");
    let mut second = EnvironmentEpisode::restore(&around, &saved, Seed(5)).await.expect("restored");
    let mut ways = Vec::new();
    for words in ["left", "up", "left"] {
        let (one, other) = (say(&mut first, words).await, say(&mut second, words).await);
        assert_eq!(one, other, "{words}");
        assert_eq!(first.state_key().await, second.state_key().await);
        ways.push(one);
    }
    let bytes = [first.snapshot().await, second.snapshot().await].map(|saved| saved.expect("a snapshot").bytes);
    assert_eq!(bytes[0], bytes[1]);
    first.rewind(&saved).await.expect("rewound");
    for (words, expected) in ["left", "up", "left"].into_iter().zip(ways) {
        assert_eq!(say(&mut first, words).await, expected, "{words} after the return");
    }
    let mut broken = saved;
    broken.bytes.truncate(broken.bytes.len() - 1);
    let error = EnvironmentEpisode::restore(&around, &broken, Seed(5)).await.err().expect("no snapshot");
    assert_eq!((error.kind, error.inner), (FailureKind::Refused, None));
}

#[tokio::test]
async fn states_that_differ_inside_have_different_keys() {
    let sandbox = sandbox();
    let four = || vec![option("map", "4x4")];
    let observe =
        wrapper(&sandbox, "observe").wrapping(&load(&sandbox, "frozen-lake"), four()).expect("an environment");
    let train = train(0);
    let key = async |words: &'static str| {
        let (mut episode, _) = EnvironmentEpisode::start(&observe, &train, &[], Seed(1)).await.expect("started");
        say(&mut episode, words).await;
        episode.state_key().await.expect("a key")
    };
    // Both maps have as many letters, so that the wrapper's own state is the same.
    assert_ne!(key("right").await, key("down").await);
    assert_eq!(key("down").await, key("down").await);
}

#[tokio::test]
async fn the_view_for_rewards_passes_through_and_stays_out_of_observations() {
    let sandbox = sandbox();
    let stories = load(&sandbox, "word-problems");
    let around = wrapper(&sandbox, "turn-cost").wrapping(&stories, vec![]).expect("an environment");
    let (mut bare, plain) = EnvironmentEpisode::start(&stories, &train(7), &[], Seed(1)).await.expect("started");
    let (mut wrapped, started) = EnvironmentEpisode::start(&around, &train(7), &[], Seed(1)).await.expect("started");
    let view = bare.privileged().await.expect("a view");
    assert_eq!(wrapped.privileged().await, Ok(view.clone()));
    let [NamedValue { value: Value::Text(answer), .. }] = &view[..] else { panic!("{view:?}") };
    let added = &started.opening.observations[plain.opening.observations.len()..];
    assert_eq!(started.opening.observations[..1], plain.opening.observations);
    let words: String = added.iter().map(|(_, content)| gymkhana_record::text_of(content)).collect();
    assert_eq!(words, "[0 turns used; each turn costs 0.01]");
    assert!(!words.contains(answer.as_str()));
    assert!(!around.offers(OptionalInterface::Guidance), "stories give no hints");
    assert!(plugin("guest-echo").inner().is_none());
}

#[tokio::test]
async fn a_wrapper_takes_the_places_of_all_plugins_at_once() {
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(3), ..config() }).expect("a sandbox");
    let around = two_around_a_lake(&sandbox);
    assert_eq!(around.places(), 3);
    let episode = start(&around).await;
    assert_eq!(sandbox.counters().free_places, 0);
    drop(episode);
    assert_eq!(sandbox.counters().free_places, 3);
    let small = Sandbox::new(&SandboxConfig { max_instances: Some(1), ..config() }).expect("a sandbox");
    let refused = wrapper(&small, "turn-cost").wrapping(&load(&small, "frozen-lake"), vec![]).err();
    assert!(matches!(refused, Some(WrapError::TooBig { needed: 2, places: 1, .. })), "{refused:?}");
}
