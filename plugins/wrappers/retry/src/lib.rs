//! Several attempts at one task, with feedback between them.
//!
//! An attempt is an episode of the environment inside, with the same task and seed. Rewards are paid when an attempt ends, so
//! that their sum is that of the last attempt, of the best one, the improvement from the first to the last, or that of
//! all attempts.

mod account;

use gymkhana_sdk::environment::{Action, Info, ResetResult, Split, StepResult};
use gymkhana_sdk::snapshot::{Reader, SnapshotState, Writer};
use gymkhana_sdk::wrapper::{Episode, Inner, InnerInfo, Wrapper, inner_splits};
use gymkhana_sdk::{Error, NamedValue, PluginOptions, Range, Task, Value, plugin, text};

use account::{Account, Paid};

/// Largest number of attempts.
const MAX_ATTEMPTS: u64 = 16;

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Number of attempts
    #[option(default = 3, range = 1..=MAX_ATTEMPTS)]
    attempts: u64,
    /// Sum of rewards
    #[option(default = Paid::Last)]
    reward: Paid,
    /// Sum of an attempt's rewards that ends the episode
    #[option(default = 1.0, range = -1e6..=1e6)]
    enough: f64,
    /// Whether the environment's hint follows a failed attempt
    #[option(default = true)]
    guidance: bool,
}

/// State of an episode: the attempt that is running, and what earlier ones earned.
pub struct Attempts {
    task: Task,
    seed: u64,
    /// Number of the running attempt, from 1.
    attempt: u64,
    /// Rewards of the running attempt.
    earned: f64,
    account: Account,
}

impl SnapshotState for Attempts {
    fn write(&self, writer: Writer) -> Writer {
        let task = writer.text(&self.task.split).integer(self.task.index).integer(self.seed);
        self.account.write(task.integer(self.attempt).integer(self.earned.to_bits()))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let task = Task { split: reader.text()?.to_owned(), index: reader.integer()? };
        let (seed, attempt, earned) = (reader.integer()?, reader.integer()?, f64::from_bits(reader.integer()?));
        let account = Account::read(reader)?;
        if !(1..=MAX_ATTEMPTS).contains(&attempt) || !earned.is_finite() {
            return Err(Error::bad_snapshot("the snapshot's attempt or rewards are out of range"));
        }
        Ok(Self { task, seed, attempt, earned, account })
    }
}

/// Several attempts at one task.
pub struct Retry;

/// The number of seats that the wrapper can serve is one: another seat's turn may end an attempt.
fn check_seats(info: &InnerInfo) -> Result<(), Error> {
    match info.seats() {
        [_] => Ok(()),
        seats => Err(Error::Invalid(format!("retry needs an environment with one seat, not with {}", seats.len()))),
    }
}

/// Starts the next attempt after one that ended, and adds its observations.
fn again(episode: &mut Episode<Retry>, mut result: StepResult) -> Result<StepResult, Error> {
    let hint = if episode.options.guidance { episode.inner().guidance().ok() } else { None };
    let state = &mut episode.state;
    let words = format!("Attempt {} of {} is over. Try the task again.", state.attempt, episode.options.attempts);
    result = result.show(0, text(words));
    if let Some(hint) = hint {
        result = result.show(0, hint);
    }
    let (inner, started) = Inner::reset(&state.task, state.seed)?;
    (state.attempt, state.earned) = (state.attempt + 1, 0.0);
    episode.episodes = vec![inner];
    result.observations.extend(started.observations);
    (result.terminated, result.truncated, result.next_seat) = (false, false, started.next_seat);
    Ok(result)
}

/// Whether a finished attempt needs no other one.
fn is_solved(episode: &Episode<Retry>, result: &StepResult) -> bool {
    let says = |named: &NamedValue| named.name == "success" && named.value == Value::Flag(true);
    episode.state.earned >= episode.options.enough || result.extras.iter().any(says)
}

impl Wrapper for Retry {
    type Options = Options;
    type State = Attempts;

    fn info(inner: &InnerInfo) -> Info {
        let Range { low, high } = inner.reward_range();
        // The improvement can be as large as the range of one attempt is wide, and each of all attempts can pay.
        let most = MAX_ATTEMPTS as f64;
        let (low, high) = (low.min(low - high).min(most * low), high.max(high - low).max(most * high));
        inner.described(format!("{}; several attempts", inner.summary())).reward_range(low.min(0.0), high.max(0.0))
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        check_seats(&InnerInfo::read())?;
        inner_splits()
    }

    fn reset(task: &Task, _options: &Options, seed: u64) -> Result<(Attempts, Vec<Inner>, ResetResult), Error> {
        check_seats(&InnerInfo::read())?;
        let (inner, result) = Inner::reset(task, seed)?;
        let (task, account) = (task.clone(), Account::default());
        Ok((Attempts { task, seed, attempt: 1, earned: 0.0, account }, vec![inner], result))
    }

    fn step(episode: &mut Episode<Self>, action: Action) -> Result<StepResult, Error> {
        let mut result = episode.inner().step(&action)?;
        let state = &mut episode.state;
        state.earned += result.rewards.drain(..).map(|reward| reward.reward).sum::<f64>();
        if !(result.terminated || result.truncated) {
            return Ok(result);
        }
        let reward = state.account.settle(episode.options.reward, state.earned);
        let result = result.reward(reward).extra("attempts", state.attempt as i64);
        if state.attempt == episode.options.attempts || is_solved(episode, &result) {
            return Ok(result);
        }
        again(episode, result)
    }
}

plugin! { wrapper: Retry }
