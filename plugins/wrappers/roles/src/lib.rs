//! A workflow of roles around one task: a planner, an executor, a verifier and others, each with a seat of its own.
//!
//! The roles form a graph with a shared memory. Some roles act in the environment inside, and the others write messages. A
//! run gives each seat its prompt, tools, limits and policy. Every role earns the environment's rewards, and pays for its own
//! turns.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod memory;
#[cfg(test)]
mod tests;
mod workflow;

use gymkhana_sdk::environment::{
    Action, ActionBody, Advice, Info, ResetResult, SeatFunctions, SeatReward, Split, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper, inner_splits, only};
use gymkhana_sdk::{Content, Error, NamedValue, OptionInfo, Options, Range, Task, Value, named, plugin, text, text_of};

use memory::Memory;
use workflow::{DEFAULT, Handover, NAMES, Role, Source, Workflow};

/// Most that one role pays for its turns in an episode.
const MOST_PAID: f64 = 1.0;

/// Episode: the environment inside, the memory, and the role to move.
pub struct Roles {
    inner: Inner,
    workflow: Workflow,
    memory: Memory,
    /// Index of the role to move.
    current: usize,
    /// Actions of the role since it got the move.
    acted: u64,
    /// Turns of all roles.
    turns: u64,
    /// What each seat has paid.
    paid: [f64; NAMES.len()],
    /// Facts of the last action in the environment.
    facts: Vec<NamedValue>,
}

/// The workflow of these options.
fn workflow(options: &Options) -> Result<Workflow, Error> {
    match InnerInfo::read().seats() {
        [_] => {}
        seats => {
            return Err(Error::Invalid(format!("roles need an environment with one seat, not with {}", seats.len())));
        }
    }
    let Value::Other(source) = options.value("workflow") else {
        return Err(Error::Invalid("option `workflow` is not a list of roles".to_owned()));
    };
    Workflow::read(source, options.integer("turns") as u64)
}

impl Roles {
    fn role(&self) -> &Role {
        &self.workflow.roles[self.current]
    }

    /// Takes an action of the role to the environment, and gives every role its share of the rewards.
    fn act(&mut self, action: &Action) -> Result<StepResult, Error> {
        let seat = action.seat;
        let mut stepped = self.inner.step(&Action { seat: 0, body: action.body.clone() })?;
        let earned: f64 = stepped.rewards.drain(..).map(|reward| reward.reward).sum();
        let share = |role: &Role| SeatReward { seat: role.seat, reward: earned * role.earns };
        stepped.rewards = self.workflow.roles.iter().filter(|_| earned != 0.0).map(share).collect();
        self.memory.add(Source::Role(seat), written(&action.body));
        for observation in &mut stepped.observations {
            self.memory.add(Source::Environment, observation.content.clone());
            observation.seat = seat;
        }
        self.memory.mark_seen(seat);
        self.facts.clone_from(&stepped.extras);
        stepped.next_seat = seat;
        Ok(stepped)
    }

    /// The handover after a message, if the role to move has done its part.
    fn handover(&self, said: &str) -> Option<Handover> {
        self.workflow.after(self.current, said).filter(|_| self.acted >= self.role().actions)
    }

    /// Gives the move to another role.
    fn give_move(&mut self, to: usize, stepped: StepResult) -> StepResult {
        (self.current, self.acted) = (to, 0);
        let role = &self.workflow.roles[to];
        let shown = self.memory.show(role);
        stepped.show(role.seat, shown).next_seat(role.seat)
    }

    /// The end at the limit of turns, with the facts of the last action. An episode without any has not succeeded.
    fn cut_off(&self, mut stepped: StepResult) -> StepResult {
        stepped.extras.clone_from(&self.facts);
        if stepped.extras.is_empty() {
            stepped.extras.push(named("success", false));
        }
        stepped.truncate()
    }

    /// A price, as a negative reward.
    fn charge(&mut self, seat: u32, price: f64, stepped: StepResult) -> StepResult {
        let paid = &mut self.paid[seat as usize];
        let price = price.min(MOST_PAID - *paid);
        *paid += price;
        if price > 0.0 { stepped.reward_to(seat, -price) } else { stepped }
    }
}

/// A message, or a call as text.
fn written(body: &ActionBody) -> Content {
    match body {
        ActionBody::Message(content) | ActionBody::Other(content) => content.clone(),
        ActionBody::Call(call) => text(format!("{}({})", call.name, call.arguments)),
    }
}

impl Wrapper for Roles {
    fn info(inner: &InnerInfo) -> Info {
        let Range { low, high } = inner.reward_range();
        let workflow = "Roles in the order of definition; the first one moves first";
        let turns = "Turns of all roles after which the episode is cut off; 0 for no limit";
        Info::new(format!("{}; a workflow of roles", inner.summary()), NAMES)
            .reward_range(low.min(0.0) - MOST_PAID, high.max(0.0))
            .option(OptionInfo::new("workflow", workflow, Value::Other(DEFAULT.to_owned())))
            .option(OptionInfo::new("turns", turns, 0).within(0.0, 1e6))
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        workflow(options)?;
        inner_splits()
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        let workflow = workflow(options)?;
        let (inner, started) = Inner::reset(task, seed)?;
        let mut memory = Memory::default();
        for observation in started.observations {
            memory.add(Source::Task, observation.content);
        }
        let first = &workflow.roles[0];
        let mut shown = ResetResult::default().show(first.seat, memory.show(first)).next_seat(first.seat);
        for role in workflow.roles.iter().filter(|role| role.actions > 0) {
            let functions = started.functions.iter().flat_map(|SeatFunctions { functions, .. }| functions.clone());
            shown = shown.offer(role.seat, functions.collect());
        }
        shown.tool_setups = started.tool_setups;
        let paid = [0.0; NAMES.len()];
        Ok((Self { inner, workflow, memory, current: 0, acted: 0, turns: 0, paid, facts: vec![] }, shown))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.turns += 1;
        let (price, acts) = (self.role().price, self.role().actions > 0);
        let stepped = if acts {
            self.acted += 1;
            self.act(&action)?
        } else {
            self.memory.add(Source::Role(action.seat), written(&action.body));
            StepResult::new().next_seat(action.seat)
        };
        let stepped = self.charge(action.seat, price, stepped);
        if stepped.terminated || stepped.truncated {
            return Ok(stepped);
        }
        if self.turns == self.workflow.turns {
            return Ok(self.cut_off(stepped));
        }
        let Some(Handover { to, price }) = self.handover(&text_of(&written(&action.body))) else { return Ok(stepped) };
        let stepped = self.charge(action.seat, price, stepped);
        Ok(self.give_move(to, stepped))
    }

    fn inner(&self) -> &Inner {
        &self.inner
    }

    fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        if self.role().actions > 0 {
            return self.inner.advise(tools, results);
        }
        Ok(Advice::Message(self.workflow.way_to_action(self.current)))
    }

    fn snapshot(&self) -> Vec<u8> {
        let workflow = Writer::new().text(&self.workflow.source).integer(self.workflow.turns);
        let course = workflow.integer(self.current as u64).integer(self.acted).integer(self.turns);
        let paid = self.paid.iter().fold(course, |writer, paid| writer.integer(paid.to_bits()));
        self.memory.write(paid.named_values(&self.facts)).finish()
    }

    fn restore(state: &[u8], inner: Vec<Inner>) -> Result<Self, Error> {
        let mut reader = Reader::new(state);
        let source = reader.text()?.to_owned();
        let limit = reader.integer()?;
        let workflow = Workflow::read(&source, limit).map_err(|error| Error::bad_snapshot(error.to_string()))?;
        let (current, acted, turns) = (reader.integer()?, reader.integer()?, reader.integer()?);
        let mut paid = [0.0; NAMES.len()];
        for paid in &mut paid {
            *paid = f64::from_bits(reader.integer()?);
        }
        let facts = reader.named_values()?;
        let memory = Memory::read(&mut reader)?;
        reader.end()?;
        let is_sound = (0.0..=MOST_PAID).contains(&paid.iter().copied().fold(0.0, f64::max));
        if current >= workflow.roles.len() as u64 || !is_sound || paid.iter().any(|paid| paid.is_nan()) {
            return Err(Error::bad_snapshot("the snapshot's role or prices are out of range"));
        }
        Ok(Self { inner: only(inner)?, workflow, memory, current: current as usize, acted, turns, paid, facts })
    }
}

plugin! { wrapper: Roles }
