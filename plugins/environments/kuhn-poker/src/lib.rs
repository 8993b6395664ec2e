//! Kuhn poker for two seats, `first` and `second`: one card and one ante per seat, and one bet.
//!
//! A seat sees its own card and the actions so far and answers with one word: check or bet, or fold or call after a
//! bet. Any other message is answered by a hint and costs a try; a seat without tries loses two antes, the maximum cost
//! of a hand. Rewards are antes won. Both splits contain the same six deals, because a strategy covers all of them;
//! `test` exists for runs that require that name.

pub mod rules;
pub mod strategy;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Picture, Privileged, Render, ResetResult, Snapshot, Split, StateKey,
    StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, NamedValue, PluginOptions, Rng, Task, hash, named, plugin, text};

use rules::{Act, Card, DEALS, faces_bet, information_set, mover, won};
use strategy::Strategy;

/// Splits; each contains all deals.
const SPLITS: [&str; 2] = ["train", "test"];

/// Cost of a forfeit, in antes.
const FORFEIT: f64 = 2.0;

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Probability that the oracle bets a Jack in the first seat, which selects one of Kuhn's equilibria
    #[option(default = 0.2, range = 0.0..=1.0 / 3.0)]
    alpha: f64,
    /// Number of invalid messages at which a seat loses the hand
    #[option(default = 3, range = 1..=100)]
    tries: u64,
}

/// State of a hand.
#[derive(Debug, Clone, PartialEq)]
pub struct KuhnPoker {
    /// Index of the deal in `DEALS`.
    deal: usize,
    acts: Vec<Act>,
    /// Invalid messages so far, by seat.
    mistakes: [u64; 2],
    /// Number of invalid messages that loses the hand.
    tries: u64,
    /// Member of Kuhn's family of equilibria that the oracle plays.
    alpha: f64,
    seed: u64,
}

impl KuhnPoker {
    fn cards(&self) -> [Card; 2] {
        DEALS[self.deal]
    }

    /// Seat to move, or the last seat after the end of the hand.
    fn seat(&self) -> usize {
        mover(&self.acts).unwrap_or(0)
    }

    /// Words for passing and betting in this state.
    fn words(&self) -> [&'static str; 2] {
        if faces_bet(&self.acts) { ["fold", "call"] } else { ["check", "bet"] }
    }

    /// Observation of the seat to move; it shows nothing of the other card.
    fn view(&self) -> String {
        let card = self.cards()[self.seat()].name();
        let done = match self.acts.as_slice() {
            [] => "You are first",
            [Act::Pass] => "You are second; a check",
            _ if self.acts.len() == 1 => "You are second; a bet",
            _ => "You checked; a bet",
        };
        let [pass, bet] = self.words();
        format!("{done}. Your card: {card}. Say {pass} or {bet}.")
    }

    /// Single action named in `said`; `None` if the text names no action or both.
    fn act_in(&self, said: &str) -> Option<Act> {
        let said = said.to_lowercase();
        let mut named = said
            .split(|symbol: char| !symbol.is_alphabetic())
            .filter_map(|word| self.words().iter().position(|known| *known == word).map(|place| Act::BOTH[place]));
        let act = named.next();
        if named.next().is_some() { None } else { act }
    }

    fn refuse(&mut self) -> StepResult {
        let seat = self.seat();
        self.mistakes[seat] += 1;
        let left = self.tries.saturating_sub(self.mistakes[seat]);
        if left == 0 {
            let first = if seat == 0 { -FORFEIT } else { FORFEIT };
            return self.end(first, false, ["A forfeit."; 2].map(str::to_owned));
        }
        let tries = if left == 1 { "1 try".to_owned() } else { format!("{left} tries") };
        let [pass, bet] = self.words();
        let answer = format!("That is neither {pass} nor {bet}; {tries} left. {}", self.view());
        StepResult::new().show(seat as u32, text(answer)).next_seat(seat as u32)
    }

    fn act(&mut self, act: Act) -> StepResult {
        self.acts.push(act);
        if mover(&self.acts).is_some() {
            return StepResult::new().show(self.seat() as u32, text(self.view())).next_seat(self.seat() as u32);
        }
        let [first, second] = self.cards();
        let fold = self.acts.last() == Some(&Act::Pass) && self.acts.contains(&Act::Bet);
        // The winner's card stays hidden after a fold.
        let told =
            |other: Card| if fold { "A fold.".to_owned() } else { format!("The other has the {}.", other.name()) };
        self.end(won(self.cards(), &self.acts), true, [told(second), told(first)])
    }

    /// End of the hand; `first` is the first seat's profit in antes.
    fn end(&self, first: f64, success: bool, told: [String; 2]) -> StepResult {
        let mut stepped = StepResult::new();
        for ((seat, told), won) in (0..).zip(told).zip([first, -first]) {
            let verb = if won > 0.0 { "win" } else { "lose" };
            let antes = won.abs();
            let shown = text(format!("{told} You {verb} {antes}."));
            stepped = stepped.show(seat, shown).reward_to(seat, won);
        }
        let [first_card, second_card] = self.cards().map(Card::name);
        let stepped = stepped.extra("success", success).extra("decisions", self.decisions()).extra("first-won", first);
        stepped.extra("first-card", first_card).extra("second-card", second_card).end()
    }

    /// Information sets and actions of the hand, in the format of [`strategy::Tally`].
    fn decisions(&self) -> String {
        let decision = |made: usize| {
            let before = &self.acts[..made];
            let card = self.cards()[mover(before).unwrap_or(0)];
            format!("{}:{}", information_set(card, before), self.acts[made].letter())
        };
        (0..self.acts.len()).map(decision).collect::<Vec<_>>().join(" ")
    }
}

impl Environment for KuhnPoker {
    type Options = Options;

    fn info() -> Info {
        Info::new("Kuhn poker; say check or bet, and fold or call to a bet", ["first", "second"])
            .reward_range(-FORFEIT, FORFEIT)
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(SPLITS.map(|split| Split::of(split, DEALS.len() as u64)).into())
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        if !SPLITS.contains(&task.split.as_str()) {
            return Err(Error::no_split(task, &SPLITS));
        }
        let deal = usize::try_from(task.index).ok().filter(|deal| *deal < DEALS.len());
        let unknown = || format!("unknown task {}/{}: there are six deals", task.split, task.index);
        let deal = deal.ok_or_else(|| Error::not_found(unknown()))?;
        let &Options { alpha, tries } = options;
        let hand = Self { deal, acts: vec![], mistakes: [0; 2], tries, alpha, seed };
        let started = ResetResult::observe(hand.view());
        Ok((hand, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        Ok(match self.act_in(&action.text()) {
            Some(act) => self.act(act),
            None => self.refuse(),
        })
    }
}

impl Snapshot for KuhnPoker {
    fn snapshot(&self) -> Vec<u8> {
        let acts: String = self.acts.iter().map(|act| act.letter()).collect();
        let hand = Writer::new().integer(self.deal as u64).text(&acts);
        let hand = hand.integer(self.mistakes[0]).integer(self.mistakes[1]).integer(self.tries);
        hand.integer(self.alpha.to_bits()).integer(self.seed).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let deal = usize::try_from(reader.integer()?).ok().filter(|deal| *deal < DEALS.len());
        let deal = deal.ok_or_else(|| Error::bad_snapshot("the snapshot's deal is not one of the six"))?;
        let act = |letter: char| Act::BOTH.into_iter().find(|act| act.letter() == letter);
        let acts: Option<Vec<Act>> = reader.text()?.chars().map(act).collect();
        let possible = |acts: &Vec<Act>| acts.len() <= 3 && (0..acts.len()).all(|made| mover(&acts[..made]).is_some());
        let acts = acts.filter(possible).ok_or_else(|| Error::bad_snapshot("the snapshot's acts are not a hand's"))?;
        let mistakes = [reader.integer()?, reader.integer()?];
        let (tries, alpha, seed) = (reader.integer()?, f64::from_bits(reader.integer()?), reader.integer()?);
        reader.end()?;
        if !(0.0..=1.0 / 3.0).contains(&alpha) {
            return Err(Error::bad_snapshot("the snapshot's alpha is not from 0 to 1/3"));
        }
        Ok(Self { deal, acts, mistakes, tries, alpha, seed })
    }
}

impl StateKey for KuhnPoker {
    /// Cards and actions. The key omits tries, so states are equal if the same view offers the same choices.
    fn state_key(&self) -> Vec<u8> {
        let [first, second] = self.cards();
        let acts: String = self.acts.iter().map(|act| act.letter()).collect();
        format!("{}{}{acts}", first.letter(), second.letter()).into_bytes()
    }
}

impl Privileged for KuhnPoker {
    /// Both cards.
    fn privileged(&self) -> Vec<NamedValue> {
        let [first, second] = self.cards().map(Card::name);
        vec![named("first-card", first), named("second-card", second)]
    }
}

impl Oracle for KuhnPoker {
    /// Plays a mixed equilibrium with choices drawn from the episode's seed. The oracle sees only its own card.
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        let Some(player) = mover(&self.acts) else {
            return Err(Error::invalid("the hand is over: the oracle has no advice"));
        };
        let card = self.cards()[player];
        let bets = Strategy::equilibrium(self.alpha).bet(card, &self.acts);
        let mut rng = Rng::new(self.seed ^ hash(information_set(card, &self.acts).as_bytes()));
        let word = self.words()[usize::from(rng.unit() < bets)];
        Ok(Advice::Message(word.to_owned()))
    }
}

impl Render for KuhnPoker {
    fn render(&self) -> Picture {
        let [first, second] = self.cards().map(Card::name);
        let mut lines = vec![format!("first: {first}   second: {second}")];
        for made in 0..self.acts.len() {
            let (who, word) = (["first", "second"][mover(&self.acts[..made]).unwrap_or(0)], self.acts[made]);
            let word = match (faces_bet(&self.acts[..made]), word) {
                (false, Act::Pass) => "checks",
                (false, Act::Bet) => "bets",
                (true, Act::Pass) => "folds",
                (true, Act::Bet) => "calls",
            };
            lines.push(format!("{who} {word}"));
        }
        Picture::Text(lines.join("\n"))
    }
}

plugin! { environment: KuhnPoker { snapshot, state_key, privileged, oracle, render } }
