//! What one episode has used of a plugin, and what its next call may use.

use std::time::Duration;

use gymkhana_record::FailureKind;

use crate::{CallError, Limits};

/// What the calls of one episode have used of a plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// How long the guest itself ran.
    pub running: Duration,
    /// The fuel that it used; 0 where it is not counted.
    pub fuel: u64,
}

/// Whose limit a call meets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Span {
    Call,
    Episode,
}

/// What one call may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// How long the guest may run, in nanoseconds.
    pub running: u64,
    /// The fuel that it may use; none where it is not counted.
    pub fuel: Option<u64>,
    running_span: Span,
    fuel_span: Span,
}

impl Allowance {
    /// What the next call may use after an episode has spent so much; an error if nothing is left.
    pub fn after(spent: Spent, limits: &Limits) -> Result<Self, CallError> {
        let (running, running_span) =
            less(nanoseconds(limits.budget), nanoseconds(limits.episode_budget.saturating_sub(spent.running)));
        let call = limits.fuel_per_call.unwrap_or(u64::MAX);
        let episode = limits.fuel_per_episode.map_or(u64::MAX, |fuel| fuel.saturating_sub(spent.fuel));
        let (fuel, fuel_span) = less(call, episode);
        let fuel = limits.count_fuel().then_some(fuel);
        let allowance = Self { running, fuel, running_span, fuel_span };
        match (running, fuel) {
            (0, _) => Err(allowance.out_of_time(limits)),
            (_, Some(0)) => Err(allowance.out_of_fuel(limits)),
            _ => Ok(allowance),
        }
    }

    /// The guest ran longer than it may.
    pub fn out_of_time(&self, limits: &Limits) -> CallError {
        let message = match self.running_span {
            Span::Call => format!("the plugin ran longer than its budget of {} ms", limits.budget.as_millis()),
            Span::Episode => format!(
                "the plugin ran longer than its budget of {} ms for a whole episode",
                limits.episode_budget.as_millis()
            ),
        };
        CallError::new(FailureKind::Budget, message)
    }

    /// The guest used more fuel than it may.
    pub fn out_of_fuel(&self, limits: &Limits) -> CallError {
        let (fuel, span) = match self.fuel_span {
            Span::Call => (limits.fuel_per_call, "one call"),
            Span::Episode => (limits.fuel_per_episode, "a whole episode"),
        };
        let fuel = fuel.unwrap_or_default();
        CallError::new(FailureKind::Fuel, format!("the plugin used up its fuel of {fuel} for {span}"))
    }
}

/// The smaller of what a call and an episode may use.
fn less(call: u64, episode: u64) -> (u64, Span) {
    if episode < call { (episode, Span::Episode) } else { (call, Span::Call) }
}

fn nanoseconds(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(u64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_limit_holds_and_is_named() {
        let limits = Limits {
            budget: Duration::from_millis(10),
            episode_budget: Duration::from_millis(25),
            fuel_per_call: Some(100),
            fuel_per_episode: Some(250),
            ..Limits::default()
        };
        let after = |milliseconds, fuel| {
            let allowance = Allowance::after(Spent { running: Duration::from_millis(milliseconds), fuel }, &limits);
            allowance.map(|allowance| (allowance.running, allowance.fuel, allowance))
        };
        let (running, fuel, allowance) = after(15, 150).expect("as much as a call may use is left");
        assert_eq!((running, fuel), (10_000_000, Some(100)));
        assert!(allowance.out_of_time(&limits).message.ends_with("budget of 10 ms"));
        assert!(allowance.out_of_fuel(&limits).message.ends_with("fuel of 100 for one call"));
        let (running, fuel, allowance) = after(20, 200).expect("something is left");
        assert_eq!((running, fuel), (5_000_000, Some(50)));
        assert!(allowance.out_of_time(&limits).message.ends_with("budget of 25 ms for a whole episode"));
        assert!(allowance.out_of_fuel(&limits).message.ends_with("fuel of 250 for a whole episode"));
        assert_eq!(after(25, 0).expect_err("no time is left").kind, FailureKind::Budget);
        assert_eq!(after(0, 300).expect_err("no fuel is left").kind, FailureKind::Fuel);
    }

    #[test]
    fn fuel_is_counted_only_where_it_is_limited() {
        let allowance = Allowance::after(Spent::default(), &Limits::default()).expect("nothing is spent");
        assert_eq!(allowance.fuel, None);
        let limits = Limits { fuel_per_episode: Some(7), ..Limits::default() };
        assert_eq!(Allowance::after(Spent::default(), &limits).expect("nothing is spent").fuel, Some(7));
    }
}
