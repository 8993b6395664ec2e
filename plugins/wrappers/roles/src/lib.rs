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
use gymkhana_sdk::snapshot::{Reader, SnapshotState, Writer};
use gymkhana_sdk::wrapper::{Episode, Inner, InnerInfo, Wrapper, inner_splits};
use gymkhana_sdk::{Content, Error, Json, NamedValue, PluginOptions, Range, Task, named, plugin, text, text_of};

use memory::Memory;
use workflow::{DEFAULT, Handover, NAMES, Role, Source, Workflow};

/// Most that one role pays for its turns in an episode.
const MAX_PAID: f64 = 1.0;

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Roles in the order of definition; the first one moves first
    #[option(default = DEFAULT)]
    workflow: Json,
    /// Turns of all roles after which the episode is truncated; 0 for no limit
    #[option(default = 0, range = 0..=1_000_000)]
    turns: u64,
}

impl Options {
    fn workflow(&self) -> Result<Workflow, Error> {
        match InnerInfo::read().seats() {
            [_] => Workflow::read(&self.workflow.0, self.turns),
            seats => Err(Error::Invalid(format!("roles need an environment with one seat, not with {}", seats.len()))),
        }
    }
}

/// State of an episode: the workflow, the memory, and the role to move.
pub struct Course {
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

impl Course {
    fn role(&self) -> &Role {
        &self.workflow.roles[self.current]
    }

    /// Follows an action of the role in the environment, and gives every role its share of the rewards.
    fn follow(&mut self, action: &Action, mut result: StepResult) -> StepResult {
        let seat = action.seat;
        let earned: f64 = result.rewards.drain(..).map(|reward| reward.reward).sum();
        let share = |role: &Role| SeatReward { seat: role.seat, reward: earned * role.earns };
        result.rewards = self.workflow.roles.iter().filter(|_| earned != 0.0).map(share).collect();
        self.memory.add(Source::Role(seat), written(&action.body));
        for observation in &mut result.observations {
            self.memory.add(Source::Environment, observation.content.clone());
            observation.seat = seat;
        }
        self.memory.mark_seen(seat);
        self.facts.clone_from(&result.extras);
        result.next_seat = seat;
        result
    }

    /// The handover after a message, if the role to move has done its part.
    fn handover(&self, said: &str) -> Option<Handover> {
        self.workflow.after(self.current, said).filter(|_| self.acted >= self.role().actions)
    }

    /// Gives the move to another role.
    fn give_move(&mut self, to: usize, result: StepResult) -> StepResult {
        (self.current, self.acted) = (to, 0);
        let role = &self.workflow.roles[to];
        let shown = self.memory.show(role);
        result.show(role.seat, shown).next_seat(role.seat)
    }

    /// The end at the limit of turns, with the facts of the last action. An episode without any has not succeeded.
    fn truncate(&self, mut result: StepResult) -> StepResult {
        result.extras.clone_from(&self.facts);
        if result.extras.is_empty() {
            result.extras.push(named("success", false));
        }
        result.truncate()
    }

    /// A price, as a negative reward.
    fn charge(&mut self, seat: u32, price: f64, result: StepResult) -> StepResult {
        let paid = &mut self.paid[seat as usize];
        let price = price.min(MAX_PAID - *paid);
        *paid += price;
        if price > 0.0 { result.reward_to(seat, -price) } else { result }
    }
}

impl SnapshotState for Course {
    fn write(&self, writer: Writer) -> Writer {
        let workflow = writer.text(&self.workflow.source).integer(self.workflow.turns);
        let course = workflow.integer(self.current as u64).integer(self.acted).integer(self.turns);
        let paid = self.paid.iter().fold(course, |writer, paid| writer.integer(paid.to_bits()));
        self.memory.write(paid.named_values(&self.facts))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let source = reader.text()?.to_owned();
        let limit = reader.integer()?;
        let workflow = Workflow::read(&source, limit).map_err(|error| Error::bad_snapshot(error.to_string()))?;
        let (current, acted, turns) = (reader.integer()?, reader.integer()?, reader.integer()?);
        let mut paid = [0.0; NAMES.len()];
        for paid in &mut paid {
            *paid = f64::from_bits(reader.integer()?);
        }
        let facts = reader.named_values()?;
        let memory = Memory::read(reader)?;
        let is_sound = (0.0..=MAX_PAID).contains(&paid.iter().copied().fold(0.0, f64::max));
        if current >= workflow.roles.len() as u64 || !is_sound || paid.iter().any(|paid| paid.is_nan()) {
            return Err(Error::bad_snapshot("the snapshot's role or prices are out of range"));
        }
        Ok(Self { workflow, memory, current: current as usize, acted, turns, paid, facts })
    }
}

/// Roles that share a task.
pub struct Roles;

/// A message, or a call as text.
fn written(body: &ActionBody) -> Content {
    match body {
        ActionBody::Message(content) | ActionBody::Other(content) => content.clone(),
        ActionBody::Call(call) => text(format!("{}({})", call.name, call.arguments)),
    }
}

impl Wrapper for Roles {
    type Options = Options;
    type State = Course;

    fn info(inner: &InnerInfo) -> Info {
        let Range { low, high } = inner.reward_range();
        Info::new(format!("{}; a workflow of roles", inner.summary()), NAMES)
            .reward_range(low.min(0.0) - MAX_PAID, high.max(0.0))
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        options.workflow()?;
        inner_splits()
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Course, Vec<Inner>, ResetResult), Error> {
        let workflow = options.workflow()?;
        let (inner, result) = Inner::reset(task, seed)?;
        let mut memory = Memory::default();
        for observation in result.observations {
            memory.add(Source::Task, observation.content);
        }
        let first = &workflow.roles[0];
        let mut shown = ResetResult::default().show(first.seat, memory.show(first)).next_seat(first.seat);
        for role in workflow.roles.iter().filter(|role| role.actions > 0) {
            let functions = result.functions.iter().flat_map(|SeatFunctions { functions, .. }| functions.clone());
            shown = shown.offer(role.seat, functions.collect());
        }
        shown.tool_setups = result.tool_setups;
        let paid = [0.0; NAMES.len()];
        let course = Course { workflow, memory, current: 0, acted: 0, turns: 0, paid, facts: vec![] };
        Ok((course, vec![inner], shown))
    }

    fn step(episode: &mut Episode<Self>, action: Action) -> Result<StepResult, Error> {
        let acts = episode.state.role().actions > 0;
        let inside = Action { seat: 0, body: action.body.clone() };
        let result = if acts { Some(episode.inner().step(&inside)?) } else { None };
        let course = &mut episode.state;
        course.turns += 1;
        let price = course.role().price;
        let result = match result {
            Some(result) => {
                course.acted += 1;
                course.follow(&action, result)
            }
            None => {
                course.memory.add(Source::Role(action.seat), written(&action.body));
                StepResult::new().next_seat(action.seat)
            }
        };
        let result = course.charge(action.seat, price, result);
        if result.terminated || result.truncated {
            return Ok(result);
        }
        if course.turns == course.workflow.turns {
            return Ok(course.truncate(result));
        }
        let Some(Handover { to, price }) = course.handover(&text_of(&written(&action.body))) else {
            return Ok(result);
        };
        let result = course.charge(action.seat, price, result);
        Ok(course.give_move(to, result))
    }

    fn advise(episode: &Episode<Self>, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        let course = &episode.state;
        if course.role().actions > 0 {
            return episode.inner().advise(tools, results);
        }
        Ok(Advice::Message(course.workflow.way_to_action(course.current)))
    }
}

plugin! { wrapper: Roles }
