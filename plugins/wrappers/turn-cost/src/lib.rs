//! A price for each turn or token of a seat, and a budget of them.
//!
//! Turns and tokens are counted for each seat. A seat without budget left ends the episode. Tokens are estimated, because an
//! environment sees text: four bytes are one token.

use gymkhana_sdk::environment::{Action, ActionBody, Info, ResetResult, StepResult};
use gymkhana_sdk::wrapper::{Episode, Inner, InnerInfo, Wrapper};
use gymkhana_sdk::{Error, OptionValue, PluginOptions, Range, Task, plugin, text, text_of};

/// Largest sum of prices that a seat pays.
const MOST: f64 = 10.0;
/// Bytes of text that count as one token.
const TOKEN_BYTES: usize = 4;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum Unit {
    Turn,
    Token,
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Price of one turn or token
    #[option(default = 0.01, range = 0.0..=MOST)]
    price: f64,
    /// What has a price; a token is four bytes of text
    #[option(default = Unit::Turn)]
    per: Unit,
    /// Largest sum of prices that a seat pays
    #[option(default = 1.0, range = 0.0..=MOST)]
    most: f64,
    /// Number of turns or tokens that a seat may use; 0 for any number
    #[option(default = 0, range = 0..=1_000_000_000)]
    budget: u64,
    /// Whether observations end with the budget and the price
    #[option(default = true)]
    shown: bool,
}

impl Options {
    /// Units of an action.
    fn units(&self, action: &Action) -> u64 {
        let bytes = match &action.body {
            ActionBody::Message(content) | ActionBody::Other(content) => text_of(content).len(),
            ActionBody::Call(call) => call.name.len() + call.arguments.len(),
        };
        match self.per {
            Unit::Turn => 1,
            Unit::Token => bytes.div_ceil(TOKEN_BYTES) as u64,
        }
    }

    /// Price of this many units of a seat, in all.
    fn price_of(&self, used: u64) -> f64 {
        (self.price * used as f64).min(self.most)
    }

    /// Words about the budget of a seat that has used this many units.
    fn words(&self, used: u64) -> Option<String> {
        let unit = match self.per {
            Unit::Turn => "turn",
            Unit::Token => "token",
        };
        let cost = format!("each {unit} costs {}", self.price);
        match (self.shown, self.budget) {
            (false, _) => None,
            (true, 0) => Some(format!("[{used} {unit}s used; {cost}]")),
            (true, budget) => Some(format!("[{} {unit}s left; {cost}]", budget.saturating_sub(used))),
        }
    }
}

/// Prices of turns or tokens. The state of an episode is the units that each seat has used.
pub struct TurnCost;

impl Wrapper for TurnCost {
    type Options = Options;
    type State = Vec<u64>;

    fn info(inner: &InnerInfo) -> Info {
        let Range { low, high } = inner.reward_range();
        inner.described(format!("{}; each turn or token has a price", inner.summary())).reward_range(low - MOST, high)
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Vec<u64>, Vec<Inner>, ResetResult), Error> {
        let (inner, result) = Inner::reset(task, seed)?;
        let (seat, seats) = (result.next_seat, InnerInfo::read().seats().len());
        let result = match options.words(0) {
            Some(words) => result.show(seat, text(words)),
            None => result,
        };
        Ok((vec![0; seats], vec![inner], result))
    }

    fn step(episode: &mut Episode<Self>, action: Action) -> Result<StepResult, Error> {
        let mut result = episode.inner().step(&action)?;
        let (options, seat) = (&episode.options, action.seat);
        let used = episode.state.get_mut(seat as usize).ok_or_else(|| Error::invalid("the seat does not exist"))?;
        let before = options.price_of(*used);
        *used = used.saturating_add(options.units(&action));
        let used = *used;
        let price = options.price_of(used) - before;
        if price > 0.0 {
            result = result.reward_to(seat, -price);
        }
        result = result.extra("cost", options.price_of(used));
        if result.terminated || result.truncated {
            return Ok(result);
        }
        if options.budget > 0 && used >= options.budget {
            return Ok(result.truncate());
        }
        let next = result.next_seat;
        let words = episode.state.get(next as usize).and_then(|used| options.words(*used));
        Ok(match words {
            Some(words) => result.show(next, text(words)),
            None => result,
        })
    }
}

plugin! { wrapper: TurnCost }

#[cfg(test)]
mod tests {
    use super::*;

    fn priced(per: Unit) -> Options {
        Options { price: 0.25, per, budget: 10, ..Options::default() }
    }

    #[test]
    fn four_bytes_are_a_token_and_the_price_has_a_limit() {
        assert_eq!(priced(Unit::Token).units(&Action::say(0, "12345")), 2);
        assert_eq!(priced(Unit::Token).units(&Action::say(0, "")), 0);
        assert_eq!(priced(Unit::Turn).units(&Action::say(0, "12345")), 1);
        let priced = priced(Unit::Token);
        assert_eq!((priced.price_of(2), priced.price_of(9)), (0.5, 1.0));
    }

    #[test]
    fn the_budget_is_shown_as_what_is_left() {
        assert_eq!(priced(Unit::Token).words(4).as_deref(), Some("[6 tokens left; each token costs 0.25]"));
        let endless = Options { budget: 0, ..priced(Unit::Turn) };
        assert_eq!(endless.words(4).as_deref(), Some("[4 turns used; each turn costs 0.25]"));
        assert_eq!(Options { shown: false, ..priced(Unit::Token) }.words(4), None);
    }
}
