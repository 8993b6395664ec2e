//! A price for each turn or token of a seat, and a budget of them.
//!
//! Turns and tokens are counted for each seat. A seat without budget left ends the episode. Tokens are estimated, because an
//! environment sees text: four bytes are one token.

use gymkhana_sdk::environment::{Action, ActionBody, Info, ResetResult, StepResult};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper, only};
use gymkhana_sdk::{Error, OptionInfo, Options, Range, Task, plugin, text, text_of};

/// Largest sum of prices that a seat pays.
const MOST: f64 = 10.0;
/// Bytes of text that count as one token.
const TOKEN_BYTES: usize = 4;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Turn,
    Token,
}

/// Option values of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Settings {
    unit: Unit,
    price: f64,
    most: f64,
    /// Units that a seat may use; 0 for any number.
    budget: u64,
    shown: bool,
}

impl Settings {
    fn of(options: &Options) -> Self {
        let unit = if options.text("per") == "token" { Unit::Token } else { Unit::Turn };
        Self {
            unit,
            price: options.number("price"),
            most: options.number("most"),
            budget: options.integer("budget") as u64,
            shown: options.flag("shown"),
        }
    }

    /// Units of an action.
    fn units(&self, action: &Action) -> u64 {
        let bytes = match &action.body {
            ActionBody::Message(content) | ActionBody::Other(content) => text_of(content).len(),
            ActionBody::Call(call) => call.name.len() + call.arguments.len(),
        };
        match self.unit {
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
        let unit = match self.unit {
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

/// Episode: the environment inside, and the units that each seat has used.
pub struct TurnCost {
    inner: Inner,
    settings: Settings,
    used: Vec<u64>,
}

impl Wrapper for TurnCost {
    fn info(inner: &InnerInfo) -> Info {
        let Range { low, high } = inner.reward_range();
        let per = OptionInfo::new("per", "What has a price; a token is four bytes of text", "turn");
        let budget = "Number of turns or tokens that a seat may use; 0 for any number";
        inner
            .described(format!("{}; each turn or token has a price", inner.summary()))
            .reward_range(low - MOST, high)
            .option(OptionInfo::new("price", "Price of one turn or token", 0.01).within(0.0, MOST))
            .option(per.one_of(&["turn", "token"]))
            .option(OptionInfo::new("most", "Largest sum of prices that a seat pays", 1.0).within(0.0, MOST))
            .option(OptionInfo::new("budget", budget, 0).within(0.0, 1e9))
            .option(OptionInfo::new("shown", "Whether observations end with the budget and the price", true))
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        let settings = Settings::of(options);
        let (inner, started) = Inner::reset(task, seed)?;
        let (seat, seats) = (started.next_seat, InnerInfo::read().seats().len());
        let started = match settings.words(0) {
            Some(words) => started.show(seat, text(words)),
            None => started,
        };
        Ok((Self { inner, settings, used: vec![0; seats] }, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        let (seat, units) = (action.seat, self.settings.units(&action));
        let mut stepped = self.inner.step(&action)?;
        let used = self.used.get_mut(seat as usize).ok_or_else(|| Error::invalid("the seat does not exist"))?;
        let before = self.settings.price_of(*used);
        *used = used.saturating_add(units);
        let price = self.settings.price_of(*used) - before;
        if price > 0.0 {
            stepped = stepped.reward_to(seat, -price);
        }
        let used = *used;
        stepped = stepped.extra("cost", self.settings.price_of(used));
        if stepped.terminated || stepped.truncated {
            return Ok(stepped);
        }
        if self.settings.budget > 0 && used >= self.settings.budget {
            return Ok(stepped.truncate());
        }
        let next = stepped.next_seat;
        let words = self.used.get(next as usize).and_then(|used| self.settings.words(*used));
        Ok(match words {
            Some(words) => stepped.show(next, text(words)),
            None => stepped,
        })
    }

    fn inner(&self) -> &Inner {
        &self.inner
    }

    fn snapshot(&self) -> Vec<u8> {
        let Settings { unit, price, most, budget, shown } = self.settings;
        let settings = Writer::new().flag(unit == Unit::Token).integer(price.to_bits()).integer(most.to_bits());
        let head = settings.integer(budget).flag(shown).integer(self.used.len() as u64);
        self.used.iter().fold(head, |writer, used| writer.integer(*used)).finish()
    }

    fn restore(state: &[u8], inner: Vec<Inner>) -> Result<Self, Error> {
        let mut reader = Reader::new(state);
        let unit = if reader.flag()? { Unit::Token } else { Unit::Turn };
        let (price, most) = (f64::from_bits(reader.integer()?), f64::from_bits(reader.integer()?));
        let (budget, shown) = (reader.integer()?, reader.flag()?);
        let used = (0..reader.integer()?).map(|_| reader.integer()).collect::<Result<_, Error>>()?;
        reader.end()?;
        if ![price, most].iter().all(|number| (0.0..=MOST).contains(number)) {
            return Err(Error::bad_snapshot("the snapshot's price is out of range"));
        }
        Ok(Self { inner: only(inner)?, settings: Settings { unit, price, most, budget, shown }, used })
    }
}

plugin! { wrapper: TurnCost }

#[cfg(test)]
mod tests {
    use super::*;

    const PRICED: Settings = Settings { unit: Unit::Token, price: 0.25, most: 1.0, budget: 10, shown: true };

    #[test]
    fn four_bytes_are_a_token_and_the_price_has_a_limit() {
        assert_eq!(PRICED.units(&Action::say(0, "12345")), 2);
        assert_eq!(PRICED.units(&Action::say(0, "")), 0);
        assert_eq!(Settings { unit: Unit::Turn, ..PRICED }.units(&Action::say(0, "12345")), 1);
        assert_eq!((PRICED.price_of(2), PRICED.price_of(9)), (0.5, 1.0));
    }

    #[test]
    fn the_budget_is_shown_as_what_is_left() {
        assert_eq!(PRICED.words(4).as_deref(), Some("[6 tokens left; each token costs 0.25]"));
        let endless = Settings { unit: Unit::Turn, budget: 0, ..PRICED };
        assert_eq!(endless.words(4).as_deref(), Some("[4 turns used; each turn costs 0.25]"));
        assert_eq!(Settings { shown: false, ..PRICED }.words(4), None);
    }
}
