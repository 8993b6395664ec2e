//! Budgets of a call and an episode: running time and fuel used, and what the next call may use.

use std::time::Duration;

use gymkhana_record::{Cost, FailureKind};
use serde::{Deserialize, Serialize};

use crate::{CallError, Limits};

/// Resources that the calls of one episode have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Running time of the guest itself.
    pub running: Duration,
    /// Fuel; 0 where it is not counted.
    pub fuel: u64,
}

/// Resources used by the calls of one slot.
#[derive(Debug, Default)]
pub(crate) struct BudgetLedger {
    spent: Spent,
    last_call: Cost,
}

impl BudgetLedger {
    /// Records one call: its running time in nanoseconds, its fuel, and its reported cost.
    pub fn record(&mut self, running: u64, fuel: Option<u64>, cost: Cost) {
        self.spent.running += Duration::from_nanos(running);
        self.spent.fuel += fuel.unwrap_or(0);
        self.last_call = cost;
    }

    /// Adds resources that an earlier slot of the same episode used.
    pub fn charge(&mut self, earlier: Spent) {
        self.spent.running += earlier.running;
        self.spent.fuel += earlier.fuel;
    }

    /// Sets the total to that of a snapshot.
    pub fn set_spent(&mut self, spent: Spent) {
        self.spent = spent;
    }

    /// Resources used by all calls so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Cost of the last call.
    pub fn last_call(&self) -> Cost {
        self.last_call
    }
}

/// Scope of the limit that a call reaches first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Call,
    Episode,
}

/// Resources that one call may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Running time of the guest, in nanoseconds.
    pub running: u64,
    /// Fuel; `None` where it is not counted.
    pub fuel: Option<u64>,
    running_scope: Scope,
    fuel_scope: Scope,
}

impl Budget {
    /// Returns the budget of the next call of an episode that has used `spent`; an error if nothing is left.
    pub fn after(spent: Spent, limits: &Limits) -> Result<Self, CallError> {
        let (running, running_scope) =
            smaller(nanoseconds(limits.budget), nanoseconds(limits.episode_budget.saturating_sub(spent.running)));
        let call = limits.fuel_per_call.unwrap_or(u64::MAX);
        let episode = limits.fuel_per_episode.map_or(u64::MAX, |fuel| fuel.saturating_sub(spent.fuel));
        let (fuel, fuel_scope) = smaller(call, episode);
        let fuel = limits.count_fuel().then_some(fuel);
        let budget = Self { running, fuel, running_scope, fuel_scope };
        match (running, fuel) {
            (0, _) => Err(budget.out_of_time(limits)),
            (_, Some(0)) => Err(budget.out_of_fuel(limits)),
            _ => Ok(budget),
        }
    }

    /// Creates the failure of a guest that exceeded its running time.
    pub fn out_of_time(&self, limits: &Limits) -> CallError {
        let message = match self.running_scope {
            Scope::Call => format!("the plugin ran longer than its budget of {} ms", limits.budget.as_millis()),
            Scope::Episode => format!(
                "the plugin ran longer than its budget of {} ms for a whole episode",
                limits.episode_budget.as_millis()
            ),
        };
        CallError::new(FailureKind::Budget, message)
    }

    /// Creates the failure of a guest that exhausted its fuel.
    pub fn out_of_fuel(&self, limits: &Limits) -> CallError {
        let (fuel, scope) = match self.fuel_scope {
            Scope::Call => (limits.fuel_per_call, "one call"),
            Scope::Episode => (limits.fuel_per_episode, "a whole episode"),
        };
        let fuel = fuel.unwrap_or(u64::MAX);
        CallError::new(FailureKind::Fuel, format!("the plugin used up its fuel of {fuel} for {scope}"))
    }
}

/// Returns the smaller limit and its scope.
fn smaller(call: u64, episode: u64) -> (u64, Scope) {
    if episode < call { (episode, Scope::Episode) } else { (call, Scope::Call) }
}

fn nanoseconds(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(u64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_limit_applies_and_is_named() {
        let limits = Limits {
            budget: Duration::from_millis(10),
            episode_budget: Duration::from_millis(25),
            fuel_per_call: Some(100),
            fuel_per_episode: Some(250),
            ..Limits::default()
        };
        let after = |milliseconds, fuel| {
            let budget = Budget::after(Spent { running: Duration::from_millis(milliseconds), fuel }, &limits);
            budget.map(|budget| (budget.running, budget.fuel, budget))
        };
        let (running, fuel, budget) = after(15, 150).expect("a whole call is left");
        assert_eq!((running, fuel), (10_000_000, Some(100)));
        assert!(budget.out_of_time(&limits).message.ends_with("budget of 10 ms"));
        assert!(budget.out_of_fuel(&limits).message.ends_with("fuel of 100 for one call"));
        let (running, fuel, budget) = after(20, 200).expect("something is left");
        assert_eq!((running, fuel), (5_000_000, Some(50)));
        assert!(budget.out_of_time(&limits).message.ends_with("budget of 25 ms for a whole episode"));
        assert!(budget.out_of_fuel(&limits).message.ends_with("fuel of 250 for a whole episode"));
        assert_eq!(after(25, 0).expect_err("no time is left").kind, FailureKind::Budget);
        assert_eq!(after(0, 300).expect_err("no fuel is left").kind, FailureKind::Fuel);
    }

    #[test]
    fn fuel_is_counted_only_where_it_is_limited() {
        let budget = Budget::after(Spent::default(), &Limits::default()).expect("nothing is spent");
        assert_eq!(budget.fuel, None);
        let limits = Limits { fuel_per_episode: Some(7), ..Limits::default() };
        assert_eq!(Budget::after(Spent::default(), &limits).expect("nothing is spent").fuel, Some(7));
    }
}
