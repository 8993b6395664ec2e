//! Deal or No Deal (Lewis et al. 2017): two seats, `first` and `second`, negotiate how to share a few items.
//!
//! Each seat sees the items and their values for itself. In its turn a seat says `offer 1 2 0` (the share it keeps of
//! each kind), `accept` or `reject`, or talks; the other seat receives its words unchanged. A message can combine both
//! as `<move>offer 1 2 0</move>` within words. An offer is valid only in the next turn. A deal pays each seat a tenth
//! of its points. At the turn limit, or after the last invalid move of a seat, both seats get 0.

mod message;
mod situation;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Picture, Privileged, Render, ResetResult, Snapshot, Split, StateKey,
    StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, NamedValue, PluginOptions, Task, named, plugin, text};

use message::Move;
use situation::{KINDS, PerKind, WORTH};

pub use situation::Situation;

/// Names of the items, singular and plural.
const NAMES: [[&str; 2]; KINDS] = [["book", "books"], ["hat", "hats"], ["ball", "balls"]];

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Maximum number of messages of both seats; without a deal by then both get 0
    #[option(default = 10, range = 2..=1000)]
    turns: u64,
    /// Number of invalid moves of a seat that ends the negotiation without a deal
    #[option(default = 3, range = 1..=100)]
    tries: u64,
}

/// State of a negotiation.
#[derive(Debug, Clone, PartialEq)]
pub struct Negotiation {
    situation: Situation,
    /// Seat to move.
    seat: usize,
    /// Share that the opponent of the seat to move has claimed in its offer.
    offer: Option<PerKind>,
    /// Turns taken, and their limit.
    turns: u64,
    turn_limit: u64,
    /// Invalid moves so far, by seat, and the number that ends the negotiation.
    mistakes: [u64; 2],
    tries: u64,
}

/// Outcome of a negotiation.
enum Outcome {
    /// Deal with this share for the first seat.
    Deal(PerKind),
    OutOfTurns,
    Forfeited,
}

/// Items in words, such as `1 book, 2 hats, 0 balls`.
fn items(share: PerKind) -> String {
    let kind = |(count, names): (u64, [&str; 2])| format!("{count} {}", names[usize::from(count != 1)]);
    share.into_iter().zip(NAMES).map(kind).collect::<Vec<_>>().join(", ")
}

impl Negotiation {
    /// First observation of a seat; it shows nothing of the other seat's values.
    fn introduction(&self, seat: usize) -> String {
        let kind = |((value, names), count): ((u64, [&str; 2]), u64)| {
            format!("{count} {} ({value} points each)", names[usize::from(count != 1)])
        };
        let values = self.situation.values[seat].into_iter().zip(NAMES).zip(self.situation.counts);
        format!(
            "To share: {}. Say offer and what you keep, accept or reject, or talk.",
            values.map(kind).collect::<Vec<_>>().join(", ")
        )
    }

    /// Whether an offer claims at most the available items.
    fn is_possible(&self, share: PerKind) -> bool {
        share.iter().zip(self.situation.counts).all(|(asked, count)| *asked <= count)
    }

    /// Effect of a message and its text for the other seat, or the reason why it is invalid.
    fn make(&mut self, made: &Move) -> Result<(Option<Outcome>, String), &'static str> {
        match made {
            Move::Offer(share) if self.is_possible(*share) => {
                self.offer = Some(*share);
                let left = self.situation.rest(*share);
                Ok((None, format!("The other offers you {} and keeps {}.", items(left), items(*share))))
            }
            Move::Offer(_) => Err("You cannot keep more than there is"),
            Move::Malformed => Err("An offer is a number for each kind, such as offer 1 0 1"),
            Move::Accept | Move::Reject if self.offer.is_none() => Err("There is no offer to answer"),
            Move::Accept => {
                let share = self.offer.take().unwrap_or_default();
                let first = if self.seat == 0 { self.situation.rest(share) } else { share };
                Ok((Some(Outcome::Deal(first)), String::new()))
            }
            Move::Reject => {
                self.offer = None;
                Ok((None, "The other rejects your offer.".to_owned()))
            }
            Move::Talk => {
                // Talk withdraws an offer, so an acceptance always refers to the previous message.
                self.offer = None;
                Ok((None, String::new()))
            }
        }
    }

    fn refuse(&mut self, why: &str) -> StepResult {
        self.mistakes[self.seat] += 1;
        let left = self.tries.saturating_sub(self.mistakes[self.seat]);
        if left == 0 {
            return self.end(&Outcome::Forfeited);
        }
        let tries = if left == 1 { "1 try".to_owned() } else { format!("{left} tries") };
        let seat = self.seat as u32;
        StepResult::new().show(seat, text(format!("{why}; {tries} left."))).next_seat(seat)
    }

    /// Passes the turn to the other seat, with its observation.
    fn hand_over(&mut self, heard: String) -> StepResult {
        self.turns += 1;
        if self.turns >= self.turn_limit {
            return self.end(&Outcome::OutOfTurns);
        }
        self.seat = 1 - self.seat;
        // A seat without a previous turn also gets its first observation.
        let heard = if self.turns == 1 { format!("{}\n{heard}", self.introduction(self.seat)) } else { heard };
        StepResult::new().show(self.seat as u32, text(heard)).next_seat(self.seat as u32)
    }

    fn end(&self, outcome: &Outcome) -> StepResult {
        let (shares, words) = match outcome {
            Outcome::Deal(first) => (Some([*first, self.situation.rest(*first)]), "A deal"),
            Outcome::OutOfTurns => (None, "No deal: the turns are used up"),
            Outcome::Forfeited => (None, "No deal: a seat has no tries left"),
        };
        let points = shares.map_or([0; 2], |[first, _]| self.situation.outcome(first));
        let mut stepped = StepResult::new();
        for seat in [0, 1] {
            let got = shares.map(|shares| format!(": you get {}", items(shares[seat]))).unwrap_or_default();
            let told = format!("{words}{got}. That is {} points.", points[seat]);
            let reward = points[seat] as f64 / WORTH as f64;
            stepped = stepped.show(seat as u32, text(told)).reward_to(seat as u32, reward);
        }
        let efficient = shares.is_some_and(|[first, _]| self.situation.is_efficient(first));
        let stepped = stepped.extra("success", shares.is_some()).extra("efficient", efficient);
        let [first, second] = points.map(|points| points as i64);
        let stepped = stepped.extra("first-points", first).extra("second-points", second);
        match outcome {
            Outcome::Deal(_) | Outcome::Forfeited => stepped.end(),
            Outcome::OutOfTurns => stepped.truncate(),
        }
    }
}

impl Environment for Negotiation {
    type Options = Options;

    fn info() -> Info {
        let summary = "Two seats share books, hats and balls that each values in its own way; say offer 1 0 2, accept or \
                       reject, or talk";
        Info::new(summary, ["first", "second"]).reward_range(0.0, 1.0)
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        let tasks = |split| Situation::of_split(split).len() as u64;
        let [train, test] = situation::Split::NAMES;
        let [train_tasks, test_tasks] = [situation::Split::Train, situation::Split::Test].map(tasks);
        Ok(vec![Split::of(train, train_tasks), Split::of(test, test_tasks)])
    }

    fn reset(task: &Task, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let split = match task.split.as_str() {
            "train" => situation::Split::Train,
            "test" => situation::Split::Test,
            _ => return Err(Error::no_split(task, &situation::Split::NAMES)),
        };
        let situations = Situation::of_split(split);
        let found = usize::try_from(task.index).ok().and_then(|index| situations.get(index));
        let situation = *found.ok_or_else(|| {
            let (Task { split, index }, count) = (task, situations.len());
            Error::not_found(format!("unknown task {split}/{index}: split `{split}` has {count} situations"))
        })?;
        let &Options { turns: turn_limit, tries } = options;
        let negotiation = Self { situation, seat: 0, offer: None, turns: 0, turn_limit, mistakes: [0; 2], tries };
        let started = ResetResult::observe(negotiation.introduction(0));
        Ok((negotiation, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        let (made, words) = message::read(&action.text());
        Ok(match self.make(&made) {
            Err(why) => self.refuse(why),
            Ok((Some(outcome), _)) => self.end(&outcome),
            Ok((None, told)) => {
                let said = if words.is_empty() { words } else { format!("The other says: {words}") };
                let heard: Vec<String> = [said, told].into_iter().filter(|part| !part.is_empty()).collect();
                let heard = if heard.is_empty() { "The other says nothing.".to_owned() } else { heard.join("\n") };
                self.hand_over(heard)
            }
        })
    }
}

fn write_kinds(writer: Writer, numbers: PerKind) -> Writer {
    numbers.into_iter().fold(writer, Writer::integer)
}

fn read_kinds(reader: &mut Reader<'_>) -> Result<PerKind, Error> {
    Ok([reader.integer()?, reader.integer()?, reader.integer()?])
}

impl Snapshot for Negotiation {
    fn snapshot(&self) -> Vec<u8> {
        let Situation { counts, values } = self.situation;
        let writer = [counts, values[0], values[1]].into_iter().fold(Writer::new(), write_kinds);
        let writer =
            write_kinds(writer.flag(self.seat == 1).flag(self.offer.is_some()), self.offer.unwrap_or_default());
        let writer = writer.integer(self.turns).integer(self.turn_limit);
        writer.integer(self.mistakes[0]).integer(self.mistakes[1]).integer(self.tries).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let counts = read_kinds(&mut reader)?;
        let values = [read_kinds(&mut reader)?, read_kinds(&mut reader)?];
        // Larger numbers are invalid, and their sums might overflow.
        let small = [counts, values[0], values[1]].as_flattened().iter().all(|number| *number <= WORTH);
        let situation = Some(Situation { counts, values }).filter(|found| small && found.keeps_the_rules());
        let situation = situation.ok_or_else(|| Error::bad_snapshot("the snapshot's situation breaks the rules"))?;
        let seat = usize::from(reader.flag()?);
        let (offered, share) = (reader.flag()?, read_kinds(&mut reader)?);
        let (turns, turn_limit) = (reader.integer()?, reader.integer()?);
        let (mistakes, tries) = ([reader.integer()?, reader.integer()?], reader.integer()?);
        reader.end()?;
        let offer = offered.then_some(share);
        let negotiation = Self { situation, seat, offer, turns, turn_limit, mistakes, tries };
        if !negotiation.is_possible(share) || turns > turn_limit || mistakes.iter().any(|count| *count > tries) {
            return Err(Error::bad_snapshot("the snapshot's offer, turns or tries exceed their limits"));
        }
        Ok(negotiation)
    }
}

impl StateKey for Negotiation {
    /// Situation, seat and offer. The key omits turns and tries, so states are equal if the same view offers the same
    /// choices.
    fn state_key(&self) -> Vec<u8> {
        let Situation { counts, values } = self.situation;
        let writer = [counts, values[0], values[1]].into_iter().fold(Writer::new(), write_kinds);
        write_kinds(writer.flag(self.seat == 1).flag(self.offer.is_some()), self.offer.unwrap_or_default()).finish()
    }
}

impl Privileged for Negotiation {
    /// Values of both seats, and the points of each in Nash's bargaining solution.
    fn privileged(&self) -> Vec<NamedValue> {
        let values = |seat: usize| self.situation.values[seat].map(|value| value.to_string()).join(" ");
        let [first, second] = self.situation.outcome(self.situation.fair_share()).map(|points| points as i64);
        vec![
            named("first-values", values(0)),
            named("second-values", values(1)),
            named("fair-first", first),
            named("fair-second", second),
        ]
    }
}

impl Oracle for Negotiation {
    /// Offers Nash's bargaining solution and accepts offers at least as good. It knows the values of both seats.
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        let first = self.situation.fair_share();
        let fair = if self.seat == 0 { first } else { self.situation.rest(first) };
        let worth = |share: PerKind| situation::points(share, self.situation.values[self.seat]);
        let good = self.offer.is_some_and(|offer| worth(self.situation.rest(offer)) >= worth(fair));
        let offer = || format!("offer {}", fair.map(|count| count.to_string()).join(" "));
        Ok(Advice::Message(if good { "accept".to_owned() } else { offer() }))
    }
}

impl Render for Negotiation {
    fn render(&self) -> Picture {
        let mut lines = vec![format!("to share: {}", items(self.situation.counts))];
        for (name, values) in ["first", "second"].into_iter().zip(self.situation.values) {
            let worth = values.into_iter().zip(NAMES).map(|(value, [item, _])| format!("a {item} {value}"));
            lines.push(format!("worth to {name}: {}", worth.collect::<Vec<_>>().join(", ")));
        }
        lines.push(match self.offer {
            Some(offer) => format!("{} would keep {}", ["first", "second"][1 - self.seat], items(offer)),
            None => "no offer".to_owned(),
        });
        Picture::Text(lines.join("\n"))
    }
}

plugin! { environment: Negotiation { snapshot, state_key, privileged, oracle, render } }
