//! Progress of a piece of work: a bar at the bottom of a terminal, or plain lines every few seconds.

use std::collections::VecDeque;
use std::io::{Write, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gymkhana_orchestration::{Progress, ProgressFigures, SuccessRate, Work};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use super::facts::{self, ProgressFacts, Time};
use crate::escape::escape_line;

/// Minimum time between log lines of one piece of work.
const PAUSE: Duration = Duration::from_secs(5);

/// Time between draws on a terminal.
const TICK: Duration = Duration::from_millis(250);

/// Number of training steps in the curve of success.
const RECENT: usize = 10;

/// Line of a terminal with room for a bar.
const WITH_BAR: &str = "{prefix} [{bar:16}] {pos}/{len} {time}{wide_msg}";

/// Line of a narrow terminal.
const WITHOUT_BAR: &str = "{prefix} {pos}/{len} {time}{wide_msg}";

/// Columns from which on a terminal has room for a bar beside the longest names.
const WIDE: u16 = 60;

/// What pieces of work share: the terminal, and the use of time.
#[derive(Clone, Default)]
pub struct Bottom {
    bars: MultiProgress,
    /// Use of time in words; empty without any.
    waits: Arc<Mutex<String>>,
}

impl Bottom {
    /// Writes above the bars.
    pub fn above<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bars.suspend(write)
    }

    /// Sets the use of time.
    pub fn set_waits(&self, text: String) {
        *lock(&self.waits) = text;
    }
}

/// Progress of a piece of work.
struct LineState {
    work: Work,
    begun: Instant,
    /// Number of finished steps now.
    done: u64,
    /// Time of the last finished step.
    at: Instant,
    figures: ProgressFigures,
    recent: VecDeque<f64>,
}

impl LineState {
    fn new(work: Work) -> Self {
        let now = Instant::now();
        let (done, figures) = (work.done, ProgressFigures::default());
        Self { work, begun: now, done, at: now, figures, recent: VecDeque::new() }
    }

    fn advance(&mut self, done: u64, figures: &ProgressFigures) {
        (self.done, self.at) = (done, Instant::now());
        self.figures.clone_from(figures);
        if let Some(SuccessRate::OfStep(share)) = figures.success {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(share);
        }
    }

    /// Seconds per step so far; `None` before the first step.
    fn seconds_per_step(&self) -> Option<f64> {
        let steps = self.done.saturating_sub(self.work.done);
        (steps > 0).then(|| (self.at - self.begun).as_secs_f64() / steps as f64)
    }

    fn time(&self) -> Time {
        if self.done >= self.work.length {
            return Time::Took(self.begun.elapsed().as_secs_f64());
        }
        let Some(step) = self.seconds_per_step() else { return Time::Unknown };
        let left = self.work.length.saturating_sub(self.done) as f64 * step - self.at.elapsed().as_secs_f64();
        Time::Left { seconds: left.max(0.0) + self.work.later.seconds, at_least: self.work.later.at_least }
    }

    /// Calls a function with the facts of the work.
    fn show<T>(&mut self, waits: &str, show: impl FnOnce(&ProgressFacts<'_>) -> T) -> T {
        let time = self.time();
        let recent = &*self.recent.make_contiguous();
        show(&ProgressFacts { time, figures: &self.figures, recent, waits })
    }
}

/// Place at which progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// At the bottom of a terminal.
    Terminal,
    /// As lines of a log.
    Log,
    /// Not at all.
    Hidden,
}

/// Progress of a piece of work, shown until it is dropped.
pub struct ProgressLine {
    display: Display,
    bottom: Bottom,
    state: Arc<Mutex<LineState>>,
    bar: ProgressBar,
    /// Position and time of the last line of a log.
    last: Mutex<(u64, Option<Instant>)>,
}

impl ProgressLine {
    /// Opens a display; on a terminal it is drawn at the bottom.
    pub fn open(bottom: &Bottom, work: Work, display: Display) -> Self {
        let (first, length, name) = (work.done, work.length, escape_line(&work.name));
        let state = Arc::new(Mutex::new(LineState::new(work)));
        let bar = if display == Display::Terminal {
            let bar = bottom.bars.add(ProgressBar::new(length));
            bar.set_style(style(Arc::clone(&state)));
            bar.set_prefix(name);
            bar.set_position(first);
            bar.enable_steady_tick(TICK);
            bar
        } else {
            ProgressBar::hidden()
        };
        Self { display, bottom: bottom.clone(), state, bar, last: Mutex::new((first, None)) }
    }

    /// Reports that `done` steps are finished.
    pub fn at(&self, done: u64, figures: &ProgressFigures) {
        lock(&self.state).advance(done, figures);
        if self.display == Display::Terminal {
            let waits = lock(&self.bottom.waits).clone();
            // The state must be free when the bar is drawn, which reads its time.
            let message = lock(&self.state).show(&waits, facts::line);
            self.bar.set_message(message);
            self.bar.set_position(done);
        }
        if self.display == Display::Log {
            self.write_log(done);
        }
    }

    /// Writes a line of a log if the last one is old, or at the end.
    fn write_log(&self, done: u64) {
        let waits = lock(&self.bottom.waits).clone();
        let (mut state, mut last) = (lock(&self.state), lock(&self.last));
        let due = last.1.is_none_or(|when| when.elapsed() >= PAUSE) || done >= state.work.length;
        if due && done > last.0 {
            *last = (done, Some(Instant::now()));
            let seconds = state.begun.elapsed().as_secs_f64();
            let rate = state.seconds_per_step().map_or(0.0, |step| step.max(1e-6).recip());
            let position = format!("{} {done}/{}", escape_line(&state.work.name), state.work.length);
            let rest = state.show(&waits, facts::plain);
            let _gone = writeln!(stderr(), "{position} {seconds:.0} s {rate:.1}/s{rest}");
        }
    }
}

/// Name, bar, position, time and facts. A terminal without room for the bar gets none.
fn style(state: Arc<Mutex<LineState>>) -> ProgressStyle {
    let template = if columns() >= WIDE { WITH_BAR } else { WITHOUT_BAR };
    // A test reads both templates.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let time = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let time = lock(&state).time();
        // The writer is a text in memory.
        let _ = facts::time_text(time).map_or(Ok(()), |text| write!(out, "{text} "));
    };
    style.with_key("time", time).progress_chars("##-")
}

impl Progress for ProgressLine {
    fn at(&self, done: u64, figures: &ProgressFigures) {
        ProgressLine::at(self, done, figures);
    }
}

impl Drop for ProgressLine {
    /// Keeps the last state as a line above the bars, which later output does not erase.
    fn drop(&mut self) {
        if self.display != Display::Terminal {
            return;
        }
        self.bar.finish_and_clear();
        let mut state = lock(&self.state);
        let position = format!("{} {}/{}", escape_line(&state.work.name), state.done, state.work.length);
        let time = facts::time_text(state.time()).unwrap_or_default();
        let line = format!("{position} {time} {}", state.show("", facts::line));
        drop(state);
        let line: String = line.chars().take(columns().saturating_sub(1).into()).collect();
        let _gone = self.bottom.above(|| writeln!(stderr(), "{}", line.trim_end()));
    }
}

/// Columns of the terminal on standard error.
fn columns() -> u16 {
    rustix::termios::tcgetwinsize(stderr()).map_or(WIDE, |size| size.ws_col)
}

/// Locks a mutex. A panic elsewhere leaves the display usable.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use gymkhana_orchestration::Later;

    use super::*;

    fn state(done: u64, length: u64, later: Later) -> LineState {
        LineState::new(Work { done, later, ..Work::new("rl: training", length) })
    }

    #[test]
    fn templates_are_read() {
        for template in [WITH_BAR, WITHOUT_BAR] {
            ProgressStyle::with_template(template).expect("a template");
        }
    }

    #[test]
    fn the_time_left_is_that_of_the_run() {
        let mut state = state(2, 12, Later { seconds: 100.0, at_least: true });
        assert_eq!(state.time(), Time::Unknown, "no step was timed");
        state.begun -= Duration::from_secs(8);
        state.advance(6, &ProgressFigures::default());
        // Four steps took 8 s; six are left.
        let Time::Left { seconds, at_least } = state.time() else { panic!("{:?}", state.time()) };
        assert!((seconds - 112.0).abs() < 0.5 && at_least, "{seconds}");
        state.begun -= Duration::from_secs(60);
        state.at -= Duration::from_secs(60);
        let Time::Left { seconds, .. } = state.time() else { panic!("{:?}", state.time()) };
        assert!((seconds - 100.0).abs() < 0.5, "a late step leaves the later work: {seconds}");
        state.advance(12, &ProgressFigures::default());
        assert!(matches!(state.time(), Time::Took(_)));
    }

    #[test]
    fn the_curve_has_the_last_ten_steps() {
        let mut state = state(0, 100, Later::default());
        for step in 1..=12_u32 {
            let success = Some(SuccessRate::OfStep(f64::from(step) / 100.0));
            state.advance(step.into(), &ProgressFigures { success, others: vec![] });
        }
        let recent: Vec<f64> = state.recent.iter().copied().collect();
        assert_eq!(recent, [0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12]);
        state.advance(
            13,
            &ProgressFigures { success: Some(SuccessRate::SoFar { solved: 1, played: 2 }), others: vec![] },
        );
        assert_eq!(state.recent.len(), 10, "a measurement has no curve");
    }
}
