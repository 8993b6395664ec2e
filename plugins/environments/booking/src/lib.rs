//! Table booking: a guest states some wishes, and the agent asks for the missing ones and books.
//!
//! The guest answers each message of the agent. A call of `book` ends the episode and earns 1 if every slot is right.
//! The guest is a simulated user: the option `user` selects the run's `model` or a rule-based guest. The manifest
//! declares `model` in both cases, because capabilities do not depend on options; a rule-based guest never calls the
//! model, so any model, such as a script, suffices.

mod user;
pub mod wish;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Privileged, ResetResult, Snapshot, Split, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Call, Error, Function, NamedValue, Parameters, PluginOptions, Task, named, plugin, text};

use user::{Exchange, User};
use wish::{SLOTS, Wish};

/// Function that ends an episode.
const BOOK: &str = "book";

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Number of slots (day, hour, guests, area) that the guest names in the opening
    #[option(default = 1, range = 0..=3)]
    told: usize,
    /// Turns after which the guest hangs up
    #[option(default = 8, range = 1..=100)]
    patience: u64,
    /// Guest: the model that the run grants, or rules
    #[option(default = User::Model)]
    user: User,
}

/// One flag per slot.
type Flags = [bool; SLOTS.len()];

/// State of one episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Booking {
    wish: Wish,
    /// Slots that the guest named in the opening.
    named: Flags,
    /// Slots that the agent asked for.
    asked: Flags,
    user: User,
    /// Turns of the agent so far, and the limit at which the guest hangs up.
    turns: u64,
    patience: u64,
    /// Consecutive messages without a question.
    wondered: u64,
    /// Exchanges after the opening.
    said: Vec<Exchange>,
}

impl Booking {
    /// Reply of the guest to a message; `None` after it has hung up.
    fn hear(&mut self, message: String) -> Result<Option<String>, Error> {
        let slot = wish::asked_in(&message);
        let reply = match self.user {
            User::Rules => user::by_rules(&self.wish, &message, self.wondered),
            User::Model => {
                let opening = user::opening(&self.wish, &self.named);
                Some(user::by_model(&self.wish, &opening, &self.said, &message)?)
            }
        };
        match slot {
            Some(slot) => {
                self.asked[slot] = true;
                self.wondered = 0;
            }
            None => self.wondered += 1,
        }
        if let Some(reply) = &reply {
            self.said.push((message, reply.clone()));
        }
        Ok(reply)
    }

    /// Slot values of a booking call, or an error message for the agent.
    fn read(call: &Call) -> Result<Wish, String> {
        let mut booked = Wish::default();
        for (place, slot) in booked.iter_mut().zip(&SLOTS) {
            let value = match slot.name {
                "hour" | "guests" => call.integer(slot.name)?.to_string(),
                _ => call.text(slot.name)?,
            };
            let wrong =
                || format!("`{}` is not a valid value of `{}`; choose {}", value, slot.name, slot.values.join(", "));
            *place = slot.find(&value).ok_or_else(wrong)?;
        }
        Ok(booked)
    }

    fn end(&self, booked: Option<Wish>) -> StepResult {
        let right =
            booked.map_or(0, |booked| booked.iter().zip(&self.wish).filter(|(one, other)| one == other).count());
        let success = right == SLOTS.len();
        let words = match (booked, success) {
            (None, _) => "The guest has hung up.",
            (Some(_), true) => "That is what the guest wanted.",
            (Some(_), false) => "That is not what the guest wanted.",
        };
        let stepped = StepResult::observe(words).reward(f64::from(u8::from(success)));
        let stepped = stepped.extra("success", success).extra("right", right as i64);
        let stepped = stepped.extra("questions", self.said.len() as i64);
        if booked.is_some() { stepped.end() } else { stepped.truncate() }
    }
}

fn functions() -> Vec<Function> {
    let parameters = Parameters::new()
        .text("day", "such as monday")
        .integer("hour", "from 12 to 21")
        .integer("guests", "from 1 to 8")
        .text("area", "garden, window, bar or terrace");
    vec![Function::new(BOOK, "Books the table, once the guest has said all of this.", parameters)]
}

impl Environment for Booking {
    type Options = Options;

    fn info() -> Info {
        Info::new("A guest books a table; ask for what it has not said, then call book", ["clerk"])
            .reward_range(0.0, 1.0)
    }

    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        Ok(wish::Split::NAMES.map(Split::endless).to_vec())
    }

    fn reset(task: &Task, options: &Options, _seed: u64) -> Result<(Self, ResetResult), Error> {
        let split = wish::Split::named(&task.split).ok_or_else(|| Error::no_split(task, &wish::Split::NAMES))?;
        let (wish, named) = wish::draw(split, task.index, options.told);
        let &Options { user, patience, .. } = options;
        let started = ResetResult::observe(user::opening(&wish, &named)).offer(0, functions());
        let asked = Flags::default();
        Ok((Self { wish, named, asked, user, turns: 0, patience, wondered: 0, said: vec![] }, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.turns += 1;
        let answer = match action.call() {
            Some(call) => match Self::read(call) {
                Ok(booked) => return Ok(self.end(Some(booked))),
                Err(why) => Some(why),
            },
            None => self.hear(action.text())?,
        };
        Ok(match answer.filter(|_| self.turns < self.patience) {
            Some(answer) => StepResult::new().show(0, text(answer)),
            None => self.end(None),
        })
    }
}

fn write_flags(writer: Writer, flags: Flags) -> Writer {
    flags.into_iter().fold(writer, Writer::flag)
}

fn read_flags(reader: &mut Reader<'_>) -> Result<Flags, Error> {
    let mut flags = Flags::default();
    for flag in &mut flags {
        *flag = reader.flag()?;
    }
    Ok(flags)
}

impl Snapshot for Booking {
    fn snapshot(&self) -> Vec<u8> {
        let writer = self.wish.iter().fold(Writer::new(), |writer, value| writer.integer(*value as u64));
        let writer = write_flags(write_flags(writer, self.named), self.asked).flag(self.user == User::Rules);
        let writer = writer.integer(self.turns).integer(self.patience).integer(self.wondered);
        let writer = writer.integer(self.said.len() as u64);
        self.said.iter().fold(writer, |writer, (agent, guest)| writer.text(agent).text(guest)).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let mut wish = Wish::default();
        for (value, slot) in wish.iter_mut().zip(&SLOTS) {
            let found = usize::try_from(reader.integer()?).ok().filter(|found| *found < slot.values.len());
            *value = found.ok_or_else(|| Error::bad_snapshot("the snapshot's wish has an unknown value"))?;
        }
        let (named, asked) = (read_flags(&mut reader)?, read_flags(&mut reader)?);
        let user = if reader.flag()? { User::Rules } else { User::Model };
        let (turns, patience, wondered) = (reader.integer()?, reader.integer()?, reader.integer()?);
        let exchanges = reader.integer()?;
        if turns > patience || exchanges > turns {
            return Err(Error::bad_snapshot("the snapshot's turns exceed the limit"));
        }
        let mut said = Vec::new();
        for _ in 0..exchanges {
            said.push((reader.text()?.to_owned(), reader.text()?.to_owned()));
        }
        reader.end()?;
        Ok(Self { wish, named, asked, user, turns, patience, wondered, said })
    }
}

impl Privileged for Booking {
    /// Guest's wish.
    fn privileged(&self) -> Vec<NamedValue> {
        SLOTS.iter().zip(self.wish).map(|(slot, value)| named(slot.name, slot.values[value])).collect()
    }
}

impl Oracle for Booking {
    /// Asks for each missing slot, then books the guest's wish.
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        let missing = (0..SLOTS.len()).find(|slot| !self.named[*slot] && !self.asked[*slot]);
        if let Some(slot) = missing {
            return Ok(Advice::Message(SLOTS[slot].question.to_owned()));
        }
        let [day, hour, guests, area] = [0, 1, 2, 3].map(|slot| SLOTS[slot].values[self.wish[slot]]);
        let arguments = format!("{{\"day\": \"{day}\", \"hour\": {hour}, \"guests\": {guests}, \"area\": \"{area}\"}}");
        Ok(Advice::Calls(vec![Call::advised(BOOK, arguments)]))
    }
}

plugin! { environment: Booking { snapshot, privileged, oracle } }
