//! Time and event metrics of a run: counters and histograms that all parts write and any thread can read.
//!
//! Recording takes a handful of relaxed atomic additions and no lock. Numbers read during a recording may be
//! inconsistent by that recording.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gymkhana_driver::TimedCall;
use gymkhana_record::{Boundary, Failure, FailureKind};

/// Upper bounds of the buckets of durations, in nanoseconds: from a call inside the sandbox to a training step.
const TIMES: [u64; 16] = [
    1_000,
    5_000,
    20_000,
    100_000,
    500_000,
    2_000_000,
    10_000_000,
    50_000_000,
    200_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    120_000_000_000,
    600_000_000_000,
];

/// Upper bounds of the buckets of staleness, in training steps; the last is the maximum of any run.
const STALENESS: [u64; 8] = [0, 1, 2, 4, 8, 16, 32, 64];

/// Activity that an episode or the trainer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// A free slot among the running episodes, or the previous episode at the same deterministic place.
    Queue,
    /// The policy: a reply, or a score of a given text.
    Generate,
    /// A tool call, including the start of its session.
    Tool,
    /// The environment's start, step, advice or final view.
    Environment,
    /// Scoring of a group.
    Reward,
    /// A training step.
    Train,
}

impl From<TimedCall> for WaitKind {
    fn from(call: TimedCall) -> Self {
        match call {
            TimedCall::Environment => Self::Environment,
            TimedCall::Tool => Self::Tool,
        }
    }
}

impl WaitKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Queue, Self::Generate, Self::Tool, Self::Environment, Self::Reward, Self::Train];

    /// Name in reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Generate => "generate",
            Self::Tool => "tool",
            Self::Environment => "environment",
            Self::Reward => "reward",
            Self::Train => "train",
        }
    }
}

/// Number of values per bucket.
#[derive(Debug)]
struct Histogram {
    bounds: &'static [u64],
    /// One counter per bound, and one for larger values.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// Values of a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramBuckets {
    /// Upper bound of each bucket, inclusive.
    pub bounds: &'static [u64],
    /// Number of values per bucket; the last entry counts values above the last bound.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: u64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Adds `times` equal values.
    fn add(&self, value: u64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Ordering::Relaxed);
    }

    /// Current values.
    fn read(&self) -> HistogramBuckets {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        HistogramBuckets { bounds: self.bounds, counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// Waits of one kind.
#[derive(Debug)]
struct Waits {
    running: AtomicU64,
    /// Durations in nanoseconds.
    times: Histogram,
}

/// Metrics of a run.
#[derive(Debug)]
pub struct RolloutMetrics {
    waits: [Waits; WaitKind::ALL.len()],
    /// Total in nanoseconds.
    trainer_idle: AtomicU64,
    staleness: Histogram,
    episodes: AtomicU64,
    /// By class of the boundary, then by kind.
    failures: [[AtomicU64; FailureKind::ALL.len()]; Boundary::CLASSES.len()],
    restarts: [AtomicU64; RestartReason::ALL.len()],
    disabled_marks: AtomicU64,
}

/// Reason why a context begins a new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartReason {
    /// The context strategy, an edit or a note changed earlier messages.
    Strategy,
    /// The chat template renders earlier messages differently.
    Template,
}

impl RestartReason {
    /// All reasons, in the order of reports.
    pub const ALL: [Self; 2] = [Self::Strategy, Self::Template];

    /// Name in reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Strategy => "strategy",
            Self::Template => "template",
        }
    }
}

impl Default for RolloutMetrics {
    fn default() -> Self {
        let waits = || Waits { running: AtomicU64::new(0), times: Histogram::new(&TIMES) };
        Self {
            waits: std::array::from_fn(|_| waits()),
            trainer_idle: AtomicU64::new(0),
            staleness: Histogram::new(&STALENESS),
            episodes: AtomicU64::new(0),
            failures: Default::default(),
            restarts: Default::default(),
            disabled_marks: AtomicU64::new(0),
        }
    }
}

impl RolloutMetrics {
    /// Starts a wait. It ends when the timer is dropped, for any reason.
    pub fn time(&self, wait: WaitKind) -> Timer<'_> {
        let waits = &self.waits[wait as usize];
        waits.running.fetch_add(1, Ordering::Relaxed);
        Timer { waits, since: Instant::now() }
    }

    /// Adds idle time of the trainer, caused by missing episodes.
    pub fn trainer_waited(&self, time: Duration) {
        self.trainer_idle.fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    /// Records the staleness of trained tokens, in training steps.
    pub fn record_staleness(&self, steps: u32, tokens: u64) {
        self.staleness.add(u64::from(steps), tokens);
    }

    /// Records the end of an episode with these failures.
    pub fn finished(&self, failures: &[Failure]) {
        self.episodes.fetch_add(1, Ordering::Relaxed);
        for Failure { at, kind, .. } in failures {
            let class = Boundary::CLASSES.iter().position(|class| *class == at.class());
            let kind = FailureKind::ALL.iter().position(|known| known == kind);
            if let Some(count) = class.zip(kind).map(|(class, kind)| &self.failures[class][kind]) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Records a context that begins a new segment.
    pub fn restarted(&self, reason: RestartReason) {
        self.restarts[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of contexts that began a new segment for a reason.
    #[must_use]
    pub fn restarts(&self, reason: RestartReason) -> u64 {
        self.restarts[reason as usize].load(Ordering::Relaxed)
    }

    /// Records marks of the tokenizer in observed texts, which became plain text.
    pub fn record_disabled_marks(&self, marks: u32) {
        self.disabled_marks.fetch_add(u64::from(marks), Ordering::Relaxed);
    }

    /// Number of marks of the tokenizer in observed texts.
    #[must_use]
    pub fn disabled_marks(&self) -> u64 {
        self.disabled_marks.load(Ordering::Relaxed)
    }

    /// Number of active waits of a kind.
    #[must_use]
    pub fn running(&self, wait: WaitKind) -> u64 {
        self.waits[wait as usize].running.load(Ordering::Relaxed)
    }

    /// Durations of finished waits of a kind, in nanoseconds.
    #[must_use]
    pub fn times(&self, wait: WaitKind) -> HistogramBuckets {
        self.waits[wait as usize].times.read()
    }

    /// Staleness of trained tokens, in training steps.
    #[must_use]
    pub fn staleness(&self) -> HistogramBuckets {
        self.staleness.read()
    }

    /// Total idle time of the trainer, caused by missing episodes.
    #[must_use]
    pub fn trainer_idle(&self) -> Duration {
        Duration::from_nanos(self.trainer_idle.load(Ordering::Relaxed))
    }

    /// Number of finished episodes.
    #[must_use]
    pub fn episodes(&self) -> u64 {
        self.episodes.load(Ordering::Relaxed)
    }

    /// Number of failures by class of the boundary and by kind.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, FailureKind, u64)> {
        Boundary::CLASSES.into_iter().zip(&self.failures).flat_map(|(class, kinds)| {
            let counts = kinds.iter().map(|count| count.load(Ordering::Relaxed));
            FailureKind::ALL.into_iter().zip(counts).map(move |(kind, count)| (class, kind, count))
        })
    }
}

/// An active wait; it is recorded on drop.
#[derive(Debug)]
#[must_use = "the wait ends when it is dropped"]
pub struct Timer<'a> {
    waits: &'a Waits,
    since: Instant,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.waits.running.fetch_sub(1, Ordering::Relaxed);
        self.waits.times.add(nanoseconds(self.since.elapsed()), 1);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use gymkhana_record::CallSite;

    use super::*;

    #[test]
    fn a_value_is_counted_in_the_first_bucket_with_a_sufficient_bound() {
        let histogram = Histogram::new(&STALENESS);
        for (value, times) in [(0, 3), (1, 1), (3, 1), (4, 2), (64, 1), (65, 5)] {
            histogram.add(value, times);
        }
        // Bounds 0, 1, 2, 4, 8, 16, 32, 64, and larger values.
        assert_eq!(histogram.read().counts, [3, 1, 0, 3, 0, 0, 0, 1, 5]);
        assert_eq!(histogram.read().sum, 1 + 3 + 8 + 64 + 325);
    }

    #[test]
    fn bounds_rise() {
        assert!(TIMES.is_sorted() && STALENESS.is_sorted());
    }

    #[test]
    fn a_wait_runs_until_its_timer_is_dropped_and_is_then_counted() {
        let watch = RolloutMetrics::default();
        let (first, second) = (watch.time(WaitKind::Tool), watch.time(WaitKind::Tool));
        assert_eq!((watch.running(WaitKind::Tool), watch.running(WaitKind::Generate)), (2, 0));
        drop(first);
        assert_eq!(watch.running(WaitKind::Tool), 1);
        drop(second);
        assert_eq!(watch.running(WaitKind::Tool), 0);
        let count = |wait| watch.times(wait).counts.iter().sum::<u64>();
        assert_eq!(WaitKind::ALL.map(count), [0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn a_cancelled_wait_is_counted() {
        let watch = RolloutMetrics::default();
        let waiting = async {
            let _timer = watch.time(WaitKind::Generate);
            std::future::pending::<()>().await;
        };
        assert!(futures::FutureExt::now_or_never(waiting).is_none());
        assert_eq!(watch.running(WaitKind::Generate), 0);
        assert_eq!(watch.times(WaitKind::Generate).counts.iter().sum::<u64>(), 1);
    }

    #[test]
    fn reports_from_many_threads_are_all_counted() {
        let watch = RolloutMetrics::default();
        let failure = |at, kind| Failure { at, kind, call_site: CallSite::Score, message: String::new() };
        let failures = [
            failure(Boundary::Tool("calculator".to_owned()), FailureKind::Trap),
            failure(Boundary::Model, FailureKind::Fault),
        ];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        drop(watch.time(WaitKind::Environment));
                        watch.finished(&failures);
                    }
                });
            }
        });
        assert_eq!(watch.times(WaitKind::Environment).counts.iter().sum::<u64>(), 4000);
        assert_eq!(watch.episodes(), 4000);
        let failures: Vec<_> = watch.failures().filter(|(.., count)| *count > 0).collect();
        assert_eq!(failures, [("tool", FailureKind::Trap, 4000), ("model", FailureKind::Fault, 4000)]);
        assert_eq!(watch.failures().count(), 6 * 12);
    }
}
