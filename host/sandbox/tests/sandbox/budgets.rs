//! Budgets of calls and episodes, and the reported costs.

use std::time::Duration;

use crate::common::{call, config, load, text, train};
use gymkhana_record::{Cost, FailureKind, NamedValue, Seed, Value};
use gymkhana_sandbox::{Action, EnvironmentEpisode, Limits, Plugin, Sandbox, SandboxConfig, Spent, ToolSession};

fn plugin(name: &str, limits: Limits) -> Plugin {
    load(&Sandbox::new(&SandboxConfig { limits, ..config() }).expect("a sandbox"), name)
}

async fn session(plugin: &Plugin) -> ToolSession {
    ToolSession::open(plugin, None, &[], Seed(7)).await.expect("a session")
}

fn work(rounds: u64) -> gymkhana_record::Call {
    call("work", &format!(r#"{{"size": {rounds}}}"#))
}

/// Rounds of work that use tens of milliseconds of CPU time, far below the budget of one call.
const LONG: u64 = 50_000_000;

/// Rounds of work that use about a millisecond of CPU time.
const SHORT: u64 = 1_000_000;

#[tokio::test]
async fn calls_that_are_each_within_their_budget_end_with_that_of_the_episode() {
    let limits = Limits {
        budget: Duration::from_secs(60),
        episode_budget: Duration::from_millis(200),
        wall: Duration::from_secs(600),
        ..Limits::default()
    };
    let mut session = session(&plugin("guest-hostile-tool", limits)).await;
    let mut calls = 0;
    let error = loop {
        match session.call(&work(SHORT)).await {
            Ok(_) => calls += 1,
            Err(error) => break error,
        }
    };
    // Each call uses about a two-hundredth of the budget, so a slow machine completes some calls too.
    assert!(calls > 0, "one call is far below the budget of the episode");
    assert_eq!(error.kind, FailureKind::Budget);
    assert!(error.message.contains("budget of 200 ms for a whole episode"), "{error}");
    assert!(session.spent().running >= Duration::from_millis(200), "{:?}", session.spent());
}

#[tokio::test]
async fn a_session_that_follows_another_pays_for_it() {
    let limits = Limits { episode_budget: Duration::from_secs(1), ..config().limits };
    let plugin = plugin("guest-hostile-tool", limits);
    let mut first = session(&plugin).await;
    first.call(&call("loop", "{}")).await.expect_err("endless");
    let (mut charged, mut free) = (session(&plugin).await, session(&plugin).await);
    for _ in 0..4 {
        charged.charge(first.spent());
    }
    let error = charged.call(&call("state", "{}")).await.expect_err("four times 300 ms of 1 s");
    assert_eq!(error.kind, FailureKind::Budget, "{error}");
    free.call(&call("state", "{}")).await.expect("nothing was charged");
}

/// The charged time is given, so that this test does not depend on the speed of the machine.
#[tokio::test]
async fn an_exhausted_episode_budget_ends_the_session_before_the_guest_runs() {
    let limits = Limits { episode_budget: Duration::from_secs(3600), ..config().limits };
    let plugin = plugin("guest-hostile-tool", limits);
    let mut session = session(&plugin).await;
    session.charge(Spent { running: Duration::from_secs(1800), fuel: 0 });
    session.call(&call("state", "{}")).await.expect("half of the budget is left");
    session.charge(Spent { running: Duration::from_secs(1800), fuel: 0 });
    let spent = session.spent();
    let error = session.call(&call("state", "{}")).await.expect_err("the budget is used up");
    assert_eq!(error.kind, FailureKind::Budget, "{error}");
    assert_eq!(session.spent(), spent, "the guest did not run");
}

#[tokio::test]
async fn the_cost_of_a_call_is_reported() {
    let mut session = session(&plugin("guest-hostile-tool", config().limits)).await;
    let opened = session.cost();
    assert!(opened.running_us > 0.0 && opened.memory_bytes.is_some_and(|bytes| bytes > 0), "{opened:?}");
    session.call(&call("state", "{}")).await.expect("an answer");
    let small = session.cost();
    session.call(&work(LONG)).await.expect("an answer");
    let large = session.cost();
    // CPU time, at least one nanosecond for ten rounds: other processes and slow machines cannot lower it.
    assert!(large.running_us > LONG as f64 / 10_000.0, "{large:?} for {LONG} rounds");
    assert!(small.running_us < large.running_us, "{small:?} for one short call");
    session.call(&call("huge", r#"{"size": 4000000}"#)).await.expect("an answer");
    let grown = session.cost().memory_bytes.expect("an instance of its own") - opened.memory_bytes.unwrap_or(0);
    // A part of a page was free.
    assert!((3_900_000..32 << 20).contains(&grown), "{grown} bytes more for four million");
    assert_eq!((small.fuel, large.fuel), (None, None), "fuel is counted only where it is limited");
}

fn with_fuel(per_call: u64, per_episode: Option<u64>) -> Limits {
    Limits { fuel_per_call: Some(per_call), fuel_per_episode: per_episode, ..config().limits }
}

/// Costs of a few calls, the last of which never ends.
async fn costs(plugin: &Plugin) -> (Vec<(Option<u64>, Option<u64>)>, String) {
    let mut session = session(plugin).await;
    let mut costs = vec![session.cost()];
    for call in [call("state", "{}"), work(1000), work(2000)] {
        session.call(&call).await.expect("an answer");
        costs.push(session.cost());
    }
    let error = session.call(&call("loop", "{}")).await.expect_err("endless");
    assert_eq!(error.kind, FailureKind::Fuel, "{error}");
    assert!(!error.kind.depends_on_time(), "it comes again by itself");
    costs.push(session.cost());
    let exact = |cost: Cost| (cost.fuel, cost.memory_bytes);
    (costs.into_iter().map(exact).collect(), error.message)
}

#[tokio::test]
async fn fuel_ends_an_endless_loop_at_the_same_instruction_every_time() {
    let limits = with_fuel(3_000_000, None);
    let first = costs(&plugin("guest-hostile-tool", limits)).await;
    // Another engine, as on another day.
    let second = costs(&plugin("guest-hostile-tool", limits)).await;
    assert_eq!(first, second);
    let fuel: Vec<u64> = first.0.iter().filter_map(|(fuel, _)| *fuel).collect();
    assert!(first.1.contains("fuel of 3000000 for one call"), "{}", first.1);
    assert_eq!(fuel.len(), 5, "each call is counted");
    assert_eq!(fuel[4], 3_000_000, "all of it was used");
    let thousand = fuel[3] - fuel[2];
    assert!((2_000..50_000).contains(&thousand), "{thousand} for a thousand rounds of some instructions");
}

#[tokio::test]
async fn an_episode_has_fuel_of_its_own() {
    let plugin = plugin("guest-hostile-tool", with_fuel(3_000_000, Some(4_000_000)));
    let mut session = session(&plugin).await;
    let mut calls = 0;
    let error = loop {
        match session.call(&work(50_000)).await {
            Ok(_) => calls += 1,
            Err(error) => break error,
        }
    };
    assert!(calls > 1, "one call alone is below");
    assert_eq!(error.kind, FailureKind::Fuel);
    assert!(error.message.contains("fuel of 4000000 for a whole episode"), "{error}");
    assert_eq!(session.spent().fuel, 4_000_000);
}

#[tokio::test]
async fn starting_takes_fuel_as_well() {
    let scarce = plugin("guest-start-loop", with_fuel(100_000, None));
    let error = ToolSession::open(&scarce, None, &[], Seed(1)).await.err().expect("it never starts");
    assert_eq!(error.kind, FailureKind::Fuel, "{error}");
    let echo = plugin("guest-echo", with_fuel(100_000, None));
    let (mut episode, _) = EnvironmentEpisode::start(&echo, &train(0), &[], Seed(1)).await.expect("enough for that");
    let start = episode.cost().fuel.expect("counted");
    episode.step(0, Action::Message(&text("hello"))).await.expect("enough for that");
    let step = episode.cost().fuel.expect("counted");
    assert!(0 < step && step < start, "{step} for a step, {start} for a start");
}

/// The environment of the benches that computes in each step as long as its option says.
#[tokio::test]
async fn a_step_costs_fuel_in_proportion_to_its_rounds() {
    let busy = plugin("guest-busy", with_fuel(10_000_000, None));
    let mut fuel = Vec::new();
    for rounds in [1000, 2000, 4000] {
        let options = [NamedValue { name: "rounds".to_owned(), value: Value::Integer(rounds) }];
        let (mut episode, _) = EnvironmentEpisode::start(&busy, &train(0), &options, Seed(1)).await.expect("started");
        episode.step(0, Action::Message(&text("hello"))).await.expect("stepped");
        fuel.push(episode.cost().fuel.expect("counted"));
    }
    assert!(fuel[1] - fuel[0] >= 1000, "{fuel:?}: each round is at least an instruction");
    assert_eq!(fuel[2] - fuel[1], 2 * (fuel[1] - fuel[0]));
}
