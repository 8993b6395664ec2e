//! Several attempts at one task, with feedback between them.
//!
//! An attempt is an episode of the environment inside, with the same task and seed. Rewards are paid when an attempt ends, so
//! that their sum is that of the last attempt, of the best one, the improvement from the first to the last, or that of
//! all attempts.

mod account;

use gymkhana_sdk::environment::{Action, Info, ResetResult, StepResult};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper, inner_splits, only};
use gymkhana_sdk::{Error, OptionInfo, Options, Range, Task, Value, plugin, text};

use account::{Account, Paid};

/// Largest number of attempts.
const MOST_ATTEMPTS: f64 = 16.0;

/// Option values of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Settings {
    attempts: u64,
    /// Sum of an attempt's rewards that ends the episode.
    enough: f64,
    paid: Paid,
    guidance: bool,
}

impl Settings {
    fn of(options: &Options) -> Result<Self, Error> {
        Ok(Self {
            attempts: options.integer("attempts") as u64,
            enough: options.number("enough"),
            paid: Paid::named(options.text("reward"))?,
            guidance: options.flag("guidance"),
        })
    }
}

/// Episode: the attempt that is running, and what earlier ones earned.
pub struct Retry {
    inner: Inner,
    task: Task,
    seed: u64,
    settings: Settings,
    /// Number of the running attempt, from 1.
    attempt: u64,
    /// Rewards of the running attempt.
    earned: f64,
    account: Account,
}

/// The number of seats that the wrapper can serve is one: another seat's turn may end an attempt.
fn check_seats(info: &InnerInfo) -> Result<(), Error> {
    match info.seats() {
        [_] => Ok(()),
        seats => Err(Error::Invalid(format!("retry needs an environment with one seat, not with {}", seats.len()))),
    }
}

impl Retry {
    /// Starts the next attempt after one that ended, and adds its observations.
    fn again(&mut self, mut stepped: StepResult) -> Result<StepResult, Error> {
        let Settings { attempts, guidance, .. } = self.settings;
        let hint = if guidance { self.inner.guidance().ok() } else { None };
        let words = format!("Attempt {} of {attempts} is over. Try the task again.", self.attempt);
        stepped = stepped.show(0, text(words));
        if let Some(hint) = hint {
            stepped = stepped.show(0, hint);
        }
        let (inner, started) = Inner::reset(&self.task, self.seed)?;
        (self.inner, self.attempt, self.earned) = (inner, self.attempt + 1, 0.0);
        stepped.observations.extend(started.observations);
        (stepped.terminated, stepped.truncated, stepped.next_seat) = (false, false, started.next_seat);
        Ok(stepped)
    }

    /// Whether a finished attempt needs no other one.
    fn is_solved(&self, stepped: &StepResult) -> bool {
        let says = |named: &gymkhana_sdk::NamedValue| named.name == "success" && named.value == Value::Flag(true);
        self.earned >= self.settings.enough || stepped.extras.iter().any(says)
    }
}

impl Wrapper for Retry {
    fn info(inner: &InnerInfo) -> Info {
        let Range { low, high } = inner.reward_range();
        // The improvement can be as large as the range of one attempt is wide, and each of all attempts can pay.
        let (low, high) =
            (low.min(low - high).min(MOST_ATTEMPTS * low), high.max(high - low).max(MOST_ATTEMPTS * high));
        let (low, high) = (low.min(0.0), high.max(0.0));
        inner
            .described(format!("{}; several attempts", inner.summary()))
            .reward_range(low, high)
            .option(OptionInfo::new("attempts", "Number of attempts", 3).within(1.0, MOST_ATTEMPTS))
            .option(OptionInfo::new("reward", "Sum of rewards", "last").one_of(&Paid::NAMES))
            .option(
                OptionInfo::new("enough", "Sum of an attempt's rewards that ends the episode", 1.0).within(-1e6, 1e6),
            )
            .option(OptionInfo::new("guidance", "Whether the environment's hint follows a failed attempt", true))
    }

    fn splits(options: &Options) -> Result<Vec<gymkhana_sdk::environment::Split>, Error> {
        Settings::of(options)?;
        check_seats(&InnerInfo::read())?;
        inner_splits()
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        check_seats(&InnerInfo::read())?;
        let settings = Settings::of(options)?;
        let (inner, started) = Inner::reset(task, seed)?;
        let (task, account) = (task.clone(), Account::default());
        Ok((Self { inner, task, seed, settings, attempt: 1, earned: 0.0, account }, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        let mut stepped = self.inner.step(&action)?;
        self.earned += stepped.rewards.drain(..).map(|reward| reward.reward).sum::<f64>();
        if !(stepped.terminated || stepped.truncated) {
            return Ok(stepped);
        }
        let reward = self.account.settle(self.settings.paid, self.earned);
        let stepped = stepped.reward(reward).extra("attempts", self.attempt as i64);
        if self.attempt == self.settings.attempts || self.is_solved(&stepped) {
            return Ok(stepped);
        }
        self.again(stepped)
    }

    fn inner(&self) -> &Inner {
        &self.inner
    }

    fn snapshot(&self) -> Vec<u8> {
        let Settings { attempts, enough, paid, guidance } = self.settings;
        let task = Writer::new().text(&self.task.split).integer(self.task.index).integer(self.seed);
        let settings = task.integer(attempts).integer(enough.to_bits()).integer(paid as u64).flag(guidance);
        self.account.write(settings.integer(self.attempt).integer(self.earned.to_bits())).finish()
    }

    fn restore(state: &[u8], inner: Vec<Inner>) -> Result<Self, Error> {
        let mut reader = Reader::new(state);
        let task = Task { split: reader.text()?.to_owned(), index: reader.integer()? };
        let seed = reader.integer()?;
        let (attempts, enough) = (reader.integer()?, f64::from_bits(reader.integer()?));
        let settings = Settings { attempts, enough, paid: Paid::read(&mut reader)?, guidance: reader.flag()? };
        let (attempt, earned) = (reader.integer()?, f64::from_bits(reader.integer()?));
        let account = Account::read(&mut reader)?;
        reader.end()?;
        let numbers = [enough, earned];
        if !(1..=attempts).contains(&attempt) || !numbers.iter().all(|number| number.is_finite()) {
            return Err(Error::bad_snapshot("the snapshot's attempt or rewards are out of range"));
        }
        Ok(Self { inner: only(inner)?, task, seed, settings, attempt, earned, account })
    }
}

plugin! { wrapper: Retry }
