//! Rewards of several attempts, paid so that their sum is the one that the run chose.

use gymkhana_sdk::snapshot::{Reader, SnapshotState, Writer};
use gymkhana_sdk::{Error, OptionValue};

/// Sum of the rewards of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Paid {
    /// That of the last attempt.
    Last,
    /// That of the best attempt.
    Best,
    /// That of the last attempt without that of the first.
    Improvement,
    /// That of all attempts: each pays its own reward.
    Each,
}

/// What finished attempts earned, and what was paid for them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    first: Option<f64>,
    best: f64,
    paid: f64,
}

impl Account {
    /// The reward that is due after an attempt.
    pub fn settle(&mut self, sum: Paid, earned: f64) -> f64 {
        let first = *self.first.get_or_insert_with(|| {
            self.best = earned;
            earned
        });
        self.best = self.best.max(earned);
        let due = match sum {
            Paid::Last => earned,
            Paid::Best => self.best,
            Paid::Improvement => earned - first,
            Paid::Each => self.paid + earned,
        };
        let reward = due - self.paid;
        self.paid = due;
        reward
    }
}

impl SnapshotState for Account {
    fn write(&self, writer: Writer) -> Writer {
        let writer = writer.flag(self.first.is_some()).integer(self.first.unwrap_or(0.0).to_bits());
        writer.integer(self.best.to_bits()).integer(self.paid.to_bits())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let (has_first, first) = (reader.flag()?, f64::from_bits(reader.integer()?));
        let (best, paid) = (f64::from_bits(reader.integer()?), f64::from_bits(reader.integer()?));
        if ![first, best, paid].iter().all(|number| number.is_finite()) {
            return Err(Error::bad_snapshot("a reward of the snapshot is not a finite number"));
        }
        Ok(Self { first: has_first.then_some(first), best, paid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewards(sum: Paid, attempts: &[f64]) -> Vec<f64> {
        let mut account = Account::default();
        attempts.iter().map(|earned| account.settle(sum, *earned)).collect()
    }

    #[test]
    fn rewards_add_up_to_the_chosen_sum() {
        let attempts = [0.25, 1.0, 0.5];
        assert_eq!(rewards(Paid::Last, &attempts), [0.25, 0.75, -0.5]);
        assert_eq!(rewards(Paid::Best, &attempts), [0.25, 0.75, 0.0]);
        assert_eq!(rewards(Paid::Improvement, &attempts), [0.0, 0.75, -0.5]);
        assert_eq!(rewards(Paid::Each, &attempts), attempts);
        // A first attempt below zero is the best one so far.
        assert_eq!(rewards(Paid::Best, &[-1.0, -2.0]), [-1.0, 0.0]);
    }

    #[test]
    fn an_account_is_restored_as_it_was_saved() {
        let mut account = Account::default();
        account.settle(Paid::Best, 0.5);
        let bytes = account.write(Writer::new()).finish();
        assert_eq!(Account::read(&mut Reader::new(&bytes)), Ok(account));
        let wrong = Writer::new().flag(true).integer(f64::NAN.to_bits()).integer(0).integer(0).finish();
        assert!(matches!(Account::read(&mut Reader::new(&wrong)), Err(Error::BadSnapshot(_))));
    }
}
