//! The text on the progress line that says what takes the time: shares of the last seconds by kind of work.
//!
//! A thread samples the activity five times a second; a task would be polled only when others are idle. While the
//! trainer trains, the run waits for training alone; otherwise every episode in flight counts the same. Episodes that
//! wait for capacity count only without other activity. Samples without any activity count as host work, such
//! as storing episodes or writing a checkpoint.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use gymkhana_rollout::{RolloutMetrics, WaitKind};
use gymkhana_sandbox::Counters;

use gymkhana_orchestration::Reporter;
use gymkhana_orchestration::{Classify, RunResult};

/// Interval between samples.
const INTERVAL: Duration = Duration::from_millis(200);

/// Exponential decay per sample; half-life about 3.4 s.
const DECAY: f64 = 0.96;

/// Kinds of wait that are named, the longest first.
const NAMED: usize = 3;

/// Decayed shares of the kinds of wait.
#[derive(Debug, Default)]
struct Shares {
    /// Decayed number of samples.
    total: f64,
    waits: [f64; WaitKind::ALL.len()],
}

impl Shares {
    /// Adds a sample: the number of waits of each kind under way.
    fn sample(&mut self, running: [u64; WaitKind::ALL.len()]) {
        self.total = self.total * DECAY + 1.0;
        let counted = |wait| match wait {
            WaitKind::Train => running[WaitKind::Train as usize] > 0,
            WaitKind::Queue => {
                WaitKind::ALL.iter().all(|other| *other == WaitKind::Queue || running[*other as usize] == 0)
            }
            _ => running[WaitKind::Train as usize] == 0,
        };
        let counts = WaitKind::ALL.map(|wait| if counted(wait) { running[wait as usize] } else { 0 });
        let all = counts.iter().sum::<u64>().max(1) as f64;
        for (share, count) in self.waits.iter_mut().zip(counts) {
            *share = *share * DECAY + count as f64 / all;
        }
    }

    /// The largest shares in words; empty without any.
    fn text(&self) -> String {
        let percent = |share: f64| (100.0 * share / self.total.max(1.0)).round();
        let host = self.total - self.waits.iter().sum::<f64>();
        let waits = WaitKind::ALL.map(|wait| (word(wait), percent(self.waits[wait as usize])));
        let mut waits: Vec<(&str, f64)> = waits.into_iter().chain([("other work", percent(host))]).collect();
        waits.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let named = waits.iter().filter(|(_, percent)| *percent >= 1.0).take(NAMED);
        let named: Vec<String> = named.map(|(word, percent)| format!("{percent} % {word}")).collect();
        if named.is_empty() { String::new() } else { format!("time: {}", named.join(", ")) }
    }
}

/// Words for a kind of wait on the progress line.
fn word(wait: WaitKind) -> &'static str {
    match wait {
        WaitKind::Queue => "waiting for capacity",
        WaitKind::Generate => "generation",
        WaitKind::Tool => "tools",
        WaitKind::Environment => "environment",
        WaitKind::Reward => "rewards",
        WaitKind::Train => "training",
    }
}

/// Plugin starts that wait for an instance, in words; empty without any.
fn waiting_starts(counters: &Counters) -> String {
    match counters.waiting {
        0 => String::new(),
        1 => format!("1 plugin start waits for one of {} instances", counters.places),
        waiting => format!("{waiting} plugin starts wait for one of {} instances", counters.places),
    }
}

/// Keeps the reporter's text about the use of time up to date until it is dropped.
pub(crate) struct ProgressMeter {
    /// Taken when the meter is dropped, which ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressMeter {
    /// Starts the sampling thread; `counters` reads those of the sandbox.
    pub fn start(
        metrics: Arc<RolloutMetrics>,
        counters: impl Fn() -> Counters + Send + 'static,
        reporter: Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("progress".to_owned());
        let thread = thread.spawn(move || sample_until(&stopped, &metrics, &counters, reporter.as_ref())).internal()?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ProgressMeter {
    /// Waits until the last text is reported.
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by its own hook.
            let _ = thread.join();
        }
    }
}

/// Samples until the other end is dropped.
fn sample_until(
    stopped: &Receiver<()>,
    metrics: &RolloutMetrics,
    counters: &dyn Fn() -> Counters,
    reporter: &dyn Reporter,
) {
    let mut shares = Shares::default();
    let mut has_warned = false;
    while gymkhana_waits::tick(INTERVAL, stopped) {
        shares.sample(WaitKind::ALL.map(|wait| metrics.running(wait)));
        let starts = waiting_starts(&counters());
        if !starts.is_empty() && !has_warned {
            has_warned = true;
            reporter.warn(&format!(
                "{starts}\nhint: raise sandbox.instances or vm.max_map_count, or lower policy.max_concurrent_sequences"
            ));
        }
        let texts: Vec<String> = [shares.text(), starts].into_iter().filter(|text| !text.is_empty()).collect();
        reporter.waits(texts.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Queue, generate, tool, environment, reward, train.
    fn shown(samples: &[[u64; 6]]) -> String {
        let mut shares = Shares::default();
        for running in samples {
            shares.sample(*running);
        }
        shares.text()
    }

    #[test]
    fn episodes_in_flight_count_the_same() {
        assert_eq!(shown(&[[90, 30, 62, 8, 0, 0]]), "time: 62 % tools, 30 % generation, 8 % environment");
    }

    #[test]
    fn while_the_trainer_learns_nothing_else_counts() {
        assert_eq!(shown(&[[90, 30, 62, 8, 0, 1]]), "time: 100 % training");
    }

    #[test]
    fn capacity_counts_without_other_activity() {
        assert_eq!(shown(&[[7, 0, 0, 0, 0, 0]]), "time: 100 % waiting for capacity");
        assert_eq!(shown(&[[7, 1, 0, 0, 0, 0]]), "time: 100 % generation");
    }

    #[test]
    fn old_samples_fade() {
        let mut samples = vec![[0, 0, 5, 0, 0, 0]; 100];
        assert_eq!(shown(&samples), "time: 100 % tools");
        samples.extend([[0, 5, 0, 0, 0, 0]; 25]);
        // 0.96^25 is 0.36.
        assert_eq!(shown(&samples), "time: 64 % generation, 36 % tools");
        samples.extend([[0, 5, 0, 0, 0, 0]; 200]);
        assert_eq!(shown(&samples), "time: 100 % generation");
    }

    #[test]
    fn samples_without_activity_are_host_work() {
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&[[0; 6]]), "time: 100 % other work");
        assert_eq!(shown(&[[0, 1, 0, 0, 0, 0], [0; 6]]), "time: 51 % other work, 49 % generation");
    }

    fn counters(waiting: u32) -> Counters {
        let (compiled, cache_hits, free_places, waits) = (0, 0, 0, 9);
        Counters { compiled, cache_hits, places: 20, free_places, waits, waiting, waited: Duration::ZERO }
    }

    #[test]
    fn waiting_starts_are_named() {
        assert_eq!(waiting_starts(&counters(0)), "");
        assert_eq!(waiting_starts(&counters(1)), "1 plugin start waits for one of 20 instances");
        assert_eq!(waiting_starts(&counters(12)), "12 plugin starts wait for one of 20 instances");
    }

    /// Passes every text on.
    struct Recorder(Sender<String>);

    impl Reporter for Recorder {
        fn status(&self, text: &str) {
            let _ = self.0.send(format!("status: {text}"));
        }

        fn progress(&self, _work: gymkhana_orchestration::Work) -> Box<dyn gymkhana_orchestration::Progress> {
            Box::new(gymkhana_orchestration::Silent)
        }

        fn waits(&self, text: String) {
            let _ = self.0.send(format!("waits: {text}"));
        }
    }

    #[test]
    fn a_waiting_start_is_warned_of_once_and_shown_while_it_waits() {
        let waiting = Arc::new(AtomicU32::new(1));
        let (sender, texts) = channel();
        let read = Arc::clone(&waiting);
        let meter = ProgressMeter::start(
            Arc::default(),
            move || counters(read.load(Ordering::Relaxed)),
            Arc::new(Recorder(sender)),
        );
        let next = || texts.recv_timeout(Duration::from_secs(60)).expect("a text within a minute");
        assert!(next().starts_with("status: 1 plugin start waits for one of 20 instances\nhint: raise"));
        assert!(next().ends_with("1 plugin start waits for one of 20 instances"));
        assert!(next().starts_with("waits: "), "the warning is not repeated");
        waiting.store(0, Ordering::Relaxed);
        // The sample under way may have read the old value.
        next();
        assert!(!next().contains("1 plugin start"));
        drop(meter.expect("a thread"));
    }
}
