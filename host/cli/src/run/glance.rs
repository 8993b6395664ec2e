//! What the run waits for, at one glance: where the time of the last seconds went.
//!
//! Several times a second a thread looks at what goes on; a task would only get to look when others have nothing to do.
//! While the trainer learns, the run waits for that alone; else it waits for the episodes in flight, each of which
//! counts the same. Episodes that wait for room wait for those, so room counts only where nothing else goes on. Where
//! nothing at all does, the host itself is at work: it stores episodes, or writes a checkpoint.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use gymkhana_rollout::{Wait, Watch};
use gymkhana_sandbox::{Counters, Sandbox};

use crate::error::{Blame, CliResult};
use crate::printer::Printer;

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(200);

/// What a look counts after the next one: those of the last five seconds make two thirds of the whole.
const KEPT: f64 = 0.96;

/// So many waits are told, the longest first.
const TOLD: usize = 3;

/// The shares of the last seconds.
#[derive(Debug, Default)]
struct Shares {
    /// What the looks so far count.
    total: f64,
    waits: [f64; Wait::ALL.len()],
}

impl Shares {
    /// Looks: so many waits of each kind go on.
    fn look(&mut self, running: [u64; Wait::ALL.len()]) {
        self.total = self.total * KEPT + 1.0;
        let counted = |wait| match wait {
            Wait::Train => running[Wait::Train as usize] > 0,
            Wait::Queue => Wait::ALL.iter().all(|other| *other == Wait::Queue || running[*other as usize] == 0),
            _ => running[Wait::Train as usize] == 0,
        };
        let counts = Wait::ALL.map(|wait| if counted(wait) { running[wait as usize] } else { 0 });
        let all = counts.iter().sum::<u64>().max(1) as f64;
        for (share, count) in self.waits.iter_mut().zip(counts) {
            *share = *share * KEPT + count as f64 / all;
        }
    }

    /// The longest waits in words; nothing where there are none.
    fn told(&self) -> String {
        let percent = |share: f64| (100.0 * share / self.total.max(1.0)).round();
        let host = self.total - self.waits.iter().sum::<f64>();
        let waits = Wait::ALL.map(|wait| (word(wait), percent(self.waits[wait as usize])));
        let mut waits: Vec<(&str, f64)> = waits.into_iter().chain([("host", percent(host))]).collect();
        waits.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let told = waits.iter().filter(|(_, percent)| *percent >= 1.0).take(TOLD);
        let told: Vec<String> = told.map(|(word, percent)| format!("{word} {percent} %")).collect();
        if told.is_empty() { String::new() } else { format!("waits for: {}", told.join(", ")) }
    }
}

/// What a person calls it.
fn word(wait: Wait) -> &'static str {
    match wait {
        Wait::Queue => "room",
        Wait::Generate => "generate",
        Wait::Tool => "tools",
        Wait::Environment => "environment",
        Wait::Reward => "rewards",
        Wait::Train => "training",
    }
}

/// The starts of plugins that wait for a place, in words; nothing where none does.
fn starts(counters: &Counters) -> String {
    match counters.waiting {
        0 => String::new(),
        1 => format!("1 start of a plugin waits for one of {} places", counters.places),
        waiting => format!("{waiting} starts of plugins wait for one of {} places", counters.places),
    }
}

/// The thread that looks; it ends when this is dropped.
pub(super) struct Glance {
    /// None once it is being dropped.
    looks_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Glance {
    /// From now on the printer's word on what the run waits for is kept true.
    pub fn start(watch: Arc<Watch>, sandbox: Sandbox, printer: Printer) -> CliResult<Self> {
        let (looks_on, ended) = channel();
        let thread = Builder::new().name("glance".to_owned());
        let thread = thread.spawn(move || look_on(&ended, &watch, &sandbox, &printer)).ours()?;
        Ok(Self { looks_on: Some(looks_on), thread: Some(thread) })
    }
}

impl Drop for Glance {
    /// Waits until nothing more is said.
    fn drop(&mut self) {
        self.looks_on = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Looks until the other end is dropped.
fn look_on(ended: &Receiver<()>, watch: &Watch, sandbox: &Sandbox, printer: &Printer) {
    let mut shares = Shares::default();
    let mut has_told = false;
    while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        shares.look(Wait::ALL.map(|wait| watch.running(wait)));
        let starts = starts(&sandbox.counters());
        if !starts.is_empty() && !has_told {
            has_told = true;
            printer.talk(format!("{starts}; raise sandbox.instances or vm.max_map_count, or lower policy.slots"));
        }
        let told: Vec<String> = [shares.told(), starts].into_iter().filter(|told| !told.is_empty()).collect();
        printer.waits(told.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_episode::{Seed, TaskRef};
    use gymkhana_sandbox::{EnvironmentEpisode, Grants, Plugin, SandboxConfig};
    use gymkhana_tests::component;

    use super::*;

    /// The only place is taken while another episode starts: that one waits, the progress line says so, and when the
    /// place is free it goes on.
    #[test]
    fn a_start_that_waits_for_a_place_is_on_the_progress_line_and_goes_on() {
        let sandbox =
            Sandbox::new(&SandboxConfig { max_instances: Some(1), ..SandboxConfig::default() }).expect("a sandbox");
        let plugin = Plugin::load(&sandbox, &component("word-problems"), &Grants::default()).expect("a plugin");
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        let start = || EnvironmentEpisode::start(&plugin, &task, &[], Seed(0));
        let printer = Printer::new();
        let _glance = Glance::start(Arc::default(), sandbox.clone(), printer.clone()).expect("a thread");
        let told = || printer.waits.behind().contains("1 start of a plugin waits for one of 1 places");
        // However long it takes until the line says so.
        let line_says = async |says: bool| {
            while told() != says {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let first = start().await.expect("an episode");
            let second = start();
            let leaves = async {
                line_says(true).await;
                drop(first);
            };
            let (second, ()) = tokio::join!(second, leaves);
            assert!(second.is_ok(), "it has the place now");
            line_says(false).await;
        });
    }

    /// Queue, generate, tool, environment, reward, train.
    fn told(looks: &[[u64; 6]]) -> String {
        let mut shares = Shares::default();
        for running in looks {
            shares.look(*running);
        }
        shares.told()
    }

    #[test]
    fn episodes_in_flight_count_the_same() {
        assert_eq!(told(&[[90, 30, 62, 8, 0, 0]]), "waits for: tools 62 %, generate 30 %, environment 8 %");
    }

    #[test]
    fn while_the_trainer_learns_the_run_waits_for_nothing_else() {
        assert_eq!(told(&[[90, 30, 62, 8, 0, 1]]), "waits for: training 100 %");
    }

    #[test]
    fn room_counts_where_nothing_else_goes_on() {
        assert_eq!(told(&[[7, 0, 0, 0, 0, 0]]), "waits for: room 100 %");
        assert_eq!(told(&[[7, 1, 0, 0, 0, 0]]), "waits for: generate 100 %");
    }

    #[test]
    fn what_is_long_ago_counts_no_more() {
        let mut looks = vec![[0, 0, 5, 0, 0, 0]; 100];
        assert_eq!(told(&looks), "waits for: tools 100 %");
        looks.extend([[0, 5, 0, 0, 0, 0]; 25]);
        // 0.96^25 is 0.36.
        assert_eq!(told(&looks), "waits for: generate 64 %, tools 36 %");
        looks.extend([[0, 5, 0, 0, 0, 0]; 200]);
        assert_eq!(told(&looks), "waits for: generate 100 %");
    }

    #[test]
    fn what_is_left_is_the_hosts_own_work() {
        assert_eq!(told(&[]), "");
        assert_eq!(told(&[[0; 6]]), "waits for: host 100 %");
        assert_eq!(told(&[[0, 1, 0, 0, 0, 0], [0; 6]]), "waits for: host 51 %, generate 49 %");
    }

    #[test]
    fn starts_that_wait_are_told() {
        let counters = |waiting| Counters {
            compiled: 0,
            cache_hits: 0,
            places: 20,
            free_places: 0,
            waits: 9,
            waiting,
            waited: Duration::ZERO,
        };
        assert_eq!(starts(&counters(0)), "");
        assert_eq!(starts(&counters(1)), "1 start of a plugin waits for one of 20 places");
        assert_eq!(starts(&counters(12)), "12 starts of plugins wait for one of 20 places");
    }
}
