//! Progress of a piece of work: a line at the bottom of a terminal, or plain lines every few seconds.

use std::collections::VecDeque;
use std::io::{Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use gymkhana_orchestration::{Progress, ProgressFigures, SuccessRate, Work};

use super::layout::{self, Content, Time};
use super::screen::Screen;

/// Minimum time between log lines of one piece of work.
const PAUSE: Duration = Duration::from_secs(5);

/// Time between draws on a terminal.
const TICK: Duration = Duration::from_millis(250);

/// Number of training steps in the curve of success.
const RECENT: usize = 10;

/// The bottom of the terminal: the newest work in progress, its line, and the use of time.
#[derive(Default)]
pub struct Bottom {
    work: Option<Arc<Mutex<State>>>,
    screen: Screen,
    /// Use of time in words; empty without any.
    waits: String,
}

/// Progress of the work at the bottom.
struct State {
    work: Work,
    begun: Instant,
    /// Number of finished steps now.
    done: u64,
    /// Time of the last finished step.
    at: Instant,
    figures: ProgressFigures,
    recent: VecDeque<f64>,
}

impl State {
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

    /// Calls a function with the content of the line.
    fn show<T>(&mut self, waits: &str, show: impl FnOnce(&Content<'_>) -> T) -> T {
        let time = self.time();
        let (done, length) = (self.done, self.work.length);
        let recent = &*self.recent.make_contiguous();
        show(&Content { name: &self.work.name, done, length, time, figures: &self.figures, recent, waits })
    }
}

impl Bottom {
    /// Writes above the line.
    pub fn above<T>(&mut self, write: impl FnOnce() -> T) -> T {
        self.screen.clear();
        let written = write();
        self.draw();
        written
    }

    /// Sets the use of time.
    pub fn set_waits(&mut self, text: String) {
        self.waits = text;
    }

    fn draw(&mut self) {
        if let Some(work) = &self.work {
            let mut state = lock(work);
            let waits = &self.waits;
            self.screen.draw(|width| state.show(waits, |content| layout::line(width, content)));
        }
    }

    /// Keeps the last line of the work, which is finished or followed by other work.
    fn keep(&mut self) {
        self.draw();
        self.screen.keep();
        self.work = None;
    }

    /// Keeps the last line of this work, if it is the newest.
    fn finish(&mut self, work: &Arc<Mutex<State>>) {
        if self.work.as_ref().is_some_and(|newest| Arc::ptr_eq(newest, work)) {
            self.keep();
        }
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
    bottom: Arc<Mutex<Bottom>>,
    state: Arc<Mutex<State>>,
    /// Draws the line on a terminal.
    ticker: Option<Ticker>,
    /// Position and time of the last line of a log.
    last: Mutex<(u64, Option<Instant>)>,
}

impl ProgressLine {
    /// Opens a display; on a terminal it is drawn at the bottom.
    pub fn open(bottom: &Arc<Mutex<Bottom>>, work: Work, display: Display) -> Self {
        let first = work.done;
        let state = Arc::new(Mutex::new(State::new(work)));
        let ticker = (display == Display::Terminal).then(|| {
            {
                let mut bottom = lock(bottom);
                bottom.keep();
                bottom.work = Some(Arc::clone(&state));
                bottom.draw();
            }
            Ticker::start(Arc::clone(bottom))
        });
        Self { display, bottom: Arc::clone(bottom), state, ticker, last: Mutex::new((first, None)) }
    }

    /// Reports that `done` steps are finished.
    pub fn at(&self, done: u64, figures: &ProgressFigures) {
        lock(&self.state).advance(done, figures);
        if self.display == Display::Log {
            self.write_log(done);
        }
    }

    /// Writes a line of a log if the last one is old, or at the end.
    fn write_log(&self, done: u64) {
        let waits = lock(&self.bottom).waits.clone();
        let (mut state, mut last) = (lock(&self.state), lock(&self.last));
        let due = last.1.is_none_or(|when| when.elapsed() >= PAUSE) || done >= state.work.length;
        if due && done > last.0 {
            *last = (done, Some(Instant::now()));
            let seconds = state.begun.elapsed().as_secs_f64();
            let rate = state.seconds_per_step().map_or(0.0, |step| step.max(1e-6).recip());
            let line = state.show(&waits, |content| layout::plain(seconds, rate, content));
            let _gone = writeln!(stderr(), "{line}");
        }
    }
}

impl Progress for ProgressLine {
    fn at(&self, done: u64, figures: &ProgressFigures) {
        ProgressLine::at(self, done, figures);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.ticker.take().is_some() {
            lock(&self.bottom).finish(&self.state);
        }
    }
}

/// Thread that draws the bottom until it is dropped.
struct Ticker {
    /// Taken when the ticker is dropped, which ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(bottom: Arc<Mutex<Bottom>>) -> Self {
        let (stop, stopped) = channel();
        let tick = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                lock(&bottom).draw();
            }
        };
        // Without a thread the line is drawn with each printed line only.
        let thread = Builder::new().name("progress-line".to_owned()).spawn(tick).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by its own hook.
            let _ = thread.join();
        }
    }
}

/// Locks a mutex. A panic elsewhere leaves the display usable.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use gymkhana_orchestration::Later;

    use super::*;

    fn state(done: u64, length: u64, later: Later) -> State {
        State::new(Work { done, later, ..Work::new("rl: training", length) })
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
