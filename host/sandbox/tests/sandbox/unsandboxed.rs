//! Code without a sandbox: its results pass the checks of a component's, and its failures end what a component's end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gymkhana_record::{Call, FailureKind, NamedValue, Part, Seed, TaskRef};
use gymkhana_registry::{ContractStamp, Digest, Kind, Manifest, PluginName};
use gymkhana_sandbox::unsandboxed::{PluginResult, Unsandboxed, contract};
use gymkhana_sandbox::{Action, CallError, EnvironmentEpisode, GuestThreads, OptionalInterface, Plugin, Trajectory};

type Step = dyn Fn(u32) -> PluginResult<contract::StepResult> + Send + Sync;

/// An environment of one seat with rewards from 0 to 1, whose step is a function of the episode's handle.
struct Scripted {
    step: Box<Step>,
    seat: u32,
    /// Handles that were closed, and those that were forgotten.
    ended: Arc<Mutex<(Vec<u32>, Vec<u32>)>>,
    next: Mutex<u32>,
}

fn not_offered<R>() -> PluginResult<R> {
    Err(CallError::new(FailureKind::Fault, "this function is not called"))
}

impl Unsandboxed for Scripted {
    fn offers(&self, interface: OptionalInterface) -> bool {
        interface == OptionalInterface::Snapshot
    }

    fn describe_environment(&self) -> PluginResult<contract::EnvironmentInfo> {
        let rewards = contract::Range { low: 0.0, high: 1.0 };
        Ok(contract::EnvironmentInfo {
            summary: String::new(),
            seats: vec!["agent".to_owned()],
            options: vec![],
            reward_range: rewards,
        })
    }

    fn reset(&self, _: &TaskRef, _: &[NamedValue], _: Seed) -> PluginResult<contract::ResetResult> {
        let mut next = self.next.lock().expect("no panic");
        *next += 1;
        let seen = contract::Observation { seat: self.seat, content: vec![contract::Part::Text("Go.".to_owned())] };
        let seat = self.seat;
        Ok(contract::ResetResult {
            episode: *next,
            observations: vec![seen],
            functions: vec![],
            tool_setups: vec![],
            next_seat: seat,
        })
    }

    fn step(&self, episode: u32, _: u32, _: Action<'_>) -> PluginResult<contract::StepResult> {
        (self.step)(episode)
    }

    fn snapshot(&self, handle: u32) -> PluginResult<Vec<u8>> {
        Ok(vec![u8::try_from(handle).expect("few episodes")])
    }

    fn restore(&self, snapshot: &[u8]) -> PluginResult<u32> {
        Ok(u32::from(snapshot[0]) + 100)
    }

    fn close(&self, handle: u32) -> PluginResult<()> {
        self.ended.lock().expect("no panic").0.push(handle);
        Ok(())
    }

    fn forget(&self, handle: u32) {
        self.ended.lock().expect("no panic").1.push(handle);
    }

    fn splits(&self, _: &[NamedValue]) -> PluginResult<Vec<contract::SplitInfo>> {
        not_offered()
    }

    fn state_key(&self, _: u32) -> PluginResult<Vec<u8>> {
        not_offered()
    }

    fn privileged(&self, _: u32) -> PluginResult<Vec<contract::NamedValue>> {
        not_offered()
    }

    fn advise(&self, _: u32, _: &[String], _: &[String]) -> PluginResult<contract::Advice> {
        not_offered()
    }

    fn guidance(&self, _: u32) -> PluginResult<Vec<contract::Part>> {
        not_offered()
    }

    fn render(&self, _: u32) -> PluginResult<contract::Picture> {
        not_offered()
    }

    fn describe_tool(&self) -> PluginResult<contract::ToolInfo> {
        not_offered()
    }

    fn functions(&self, _: &[NamedValue]) -> PluginResult<Vec<contract::Function>> {
        not_offered()
    }

    fn open(&self, _: Option<&[u8]>, _: &[NamedValue], _: Seed) -> PluginResult<u32> {
        not_offered()
    }

    fn call(&self, _: u32, _: &Call) -> PluginResult<contract::Answer> {
        not_offered()
    }

    fn final_view(&self, _: u32) -> PluginResult<Vec<contract::NamedValue>> {
        not_offered()
    }

    fn describe_reward(&self) -> PluginResult<contract::RewardInfo> {
        not_offered()
    }

    fn score(&self, _: &[Trajectory<'_>], _: &[NamedValue], _: u64) -> PluginResult<Vec<Vec<contract::SeatScore>>> {
        not_offered()
    }
}

fn plugin(code: Scripted) -> Plugin {
    let manifest = Manifest {
        name: PluginName::new("local", "scripted").expect("a name"),
        version: "0.0.0".parse().expect("a version"),
        kinds: BTreeSet::from([Kind::Environment]),
        contract: ContractStamp::of_this_host(),
        license: String::new(),
        description: String::new(),
        capabilities: BTreeSet::new(),
        optional: BTreeSet::new(),
        deterministic: false,
        thoughts: false,
        reward_range: None,
        quick: false,
    };
    Plugin::unsandboxed(manifest, Digest::of(b"source"), Arc::new(code))
}

fn scripted(step: impl Fn(u32) -> PluginResult<contract::StepResult> + Send + Sync + 'static) -> Scripted {
    Scripted { step: Box::new(step), seat: 0, ended: Arc::default(), next: Mutex::new(0) }
}

fn stepped(reward: f64, terminated: bool, seat: u32) -> contract::StepResult {
    let rewards = vec![contract::SeatReward { seat: 0, reward }];
    contract::StepResult {
        observations: vec![],
        rewards,
        terminated,
        truncated: false,
        extras: vec![],
        next_seat: seat,
    }
}

async fn start(plugin: &Plugin) -> Result<EnvironmentEpisode, CallError> {
    let task = TaskRef { split: "train".to_owned(), index: 0 };
    EnvironmentEpisode::start(plugin, &task, &[], Seed(1)).await.map(|(episode, _)| episode)
}

fn say(text: &str) -> Vec<Part> {
    vec![Part::Text(text.to_owned())]
}

#[tokio::test]
async fn results_that_break_the_contract_are_malformed_and_end_the_episode() {
    let plugin_of = |result: contract::StepResult| plugin(scripted(move |_| Ok(result.clone())));
    for (result, said) in [
        (stepped(f64::NAN, true, 0), "seat 0 earned NaN before the end, too much for the range 0 to 1"),
        (stepped(-0.5, true, 0), "seat 0 earned -0.5 in total, outside the range 0 to 1"),
        (stepped(0.0, false, 1), "seat 1 does not exist; the environment has 1"),
    ] {
        let mut episode = start(&plugin_of(result)).await.expect("a sound start");
        let error = episode.step(0, Action::Message(&say("x"))).await.expect_err(said);
        assert_eq!(error.kind, FailureKind::Malformed);
        assert_eq!(error.message, format!("the plugin's result breaks the contract: {said}"));
        let later = episode.step(0, Action::Message(&say("x"))).await.expect_err("it is over");
        assert!(later.message.starts_with("its state was lost in an earlier failure: "), "{later}");
    }
    let wrong = plugin(Scripted { seat: 7, ..scripted(|_| not_offered()) });
    let error = start(&wrong).await.map(drop).expect_err("seat 7");
    assert_eq!(error.kind, FailureKind::Malformed);
}

#[tokio::test]
async fn only_the_authors_own_error_leaves_an_episode_usable() {
    let refusing = scripted(|_| Err(CallError::refused(contract::Error::Invalid("not now".to_owned()))));
    let mut episode = start(&plugin(refusing)).await.expect("a sound start");
    for _ in 0..2 {
        let error = episode.step(0, Action::Message(&say("x"))).await.expect_err("refused");
        assert!(error.is_invalid() && error.message.ends_with("not now"), "{error}");
    }
    let raising = scripted(|_| Err(CallError::new(FailureKind::Trap, "an exception")));
    let mut episode = start(&plugin(raising)).await.expect("a sound start");
    for message in ["an exception", "its state was lost in an earlier failure: an exception"] {
        let error = episode.step(0, Action::Message(&say("x"))).await.expect_err("it raises");
        assert_eq!((error.kind, error.message.as_str()), (FailureKind::Trap, message));
    }
}

#[tokio::test]
async fn each_episode_is_closed_or_forgotten_once() {
    let code = scripted(|_| Ok(stepped(0.0, false, 0)));
    let ended = Arc::clone(&code.ended);
    let plugin = plugin(code);
    let (first, mut second) = (start(&plugin).await.expect("a start"), start(&plugin).await.expect("a start"));
    let snapshot = second.snapshot().await.expect("it offers snapshots");
    let third = EnvironmentEpisode::restore(&plugin, &snapshot, Seed(1)).await.expect("it restores");
    first.close().await.expect("it closes");
    drop((second, third));
    // The third one's handle is 100 more than that of the second.
    assert_eq!(*ended.lock().expect("no panic"), (vec![1], vec![2, 102]));
}

#[tokio::test]
async fn what_it_does_not_offer_is_refused() {
    let plugin = plugin(scripted(|_| not_offered()));
    assert!(!plugin.is_sandboxed() && plugin.places() == 0);
    let mut episode = start(&plugin).await.expect("a start");
    let error = episode.state_key().await.expect_err("not offered");
    let said = "plugin `local/scripted` does not offer the interface `environment-state-key`";
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Refused, said));
    let error = plugin.tool_info().await.expect_err("an environment");
    assert_eq!(error.message, "plugin `local/scripted` does not offer the interface `tool`");
}

/// The first episode's step waits until the second one steps, on a runtime with one thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_step_that_blocks_leaves_its_thread_to_other_episodes() {
    let (sender, receiver): (Sender<()>, Receiver<()>) = channel();
    let receiver = Mutex::new(receiver);
    let code = scripted(move |episode| {
        if episode == 1 {
            let waited = receiver.lock().expect("no panic").recv_timeout(Duration::from_secs(60));
            waited.map_err(|error| CallError::new(FailureKind::Fault, error.to_string()))?;
        } else {
            sender.send(()).expect("the other one waits");
        }
        Ok(stepped(0.0, false, 0))
    });
    let plugin = plugin(code);
    let play = |plugin: Plugin| async move { start(&plugin).await?.step(0, Action::Message(&say("x"))).await };
    let first = tokio::spawn(play(plugin.clone()));
    tokio::task::yield_now().await;
    let second = tokio::spawn(play(plugin));
    first.await.expect("no panic").expect("the second one stepped");
    second.await.expect("no panic").expect("a step");
}

/// A task that goes on after the end of its threads would use timers that have ended, which panics.
#[test]
fn a_task_that_is_cancelled_during_a_call_does_not_go_on_after_it() {
    for cancelled in [true, false] {
        let (begin, begun) = channel();
        let (release, released) = channel::<()>();
        let released = Mutex::new(released);
        let code = scripted(move |_| {
            begin.send(()).expect("the test waits");
            let _ = released.lock().expect("no panic").recv_timeout(Duration::from_secs(60));
            Ok(stepped(0.0, false, 0))
        });
        let (plugin, went_on) = (plugin(code), Arc::new(AtomicBool::new(false)));
        let guests = GuestThreads::start_with(1).expect("a thread");
        let noted = Arc::clone(&went_on);
        let task = guests.handle().spawn(async move {
            let mut episode = start(&plugin).await.expect("an episode");
            episode.step(0, Action::Message(&say("x"))).await.expect("a step");
            noted.store(true, Ordering::Relaxed);
        });
        begun.recv().expect("the call begins");
        if cancelled {
            task.abort();
        }
        release.send(()).expect("the call waits");
        while !task.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(guests);
        assert_eq!(went_on.load(Ordering::Relaxed), !cancelled);
    }
}
