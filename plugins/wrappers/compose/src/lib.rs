//! Several tasks of an environment as one task with an objective for each.
//!
//! The agent sees all tasks at the start and works on them in their order: its actions go to the first task that has not
//! ended. The reward is the mean of the tasks' rewards, so that its range is that of one task.

use std::collections::BTreeSet;

use gymkhana_sdk::environment::{Action, Info, ResetResult, SeatFunctions, Split, StepResult};
use gymkhana_sdk::snapshot::{Reader, SnapshotState, Writer};
use gymkhana_sdk::wrapper::{Episode, Inner, InnerInfo, Wrapper, inner_splits};
use gymkhana_sdk::{Error, NamedValue, PluginOptions, Range, Task, Value, named, plugin, text};

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Number of tasks in one
    #[option(default = 2, range = 1..=8)]
    tasks: u64,
}

/// One of the tasks; its episode has the same index.
struct Part {
    /// Seat to move.
    seat: u32,
    /// Offered functions, as pairs of seat and name.
    offered: Vec<(u32, String)>,
    /// Facts of the last step, once the task has ended.
    facts: Option<Vec<NamedValue>>,
}

/// State of an episode: the tasks, of which those before the current one have ended.
pub struct Parts {
    parts: Vec<Part>,
    current: usize,
}

/// Several tasks in one.
pub struct Compose;

/// Number of composed tasks of a split; `None` for tasks that are generated without limit.
fn tasks_of(split: &Split, count: u64) -> Option<u64> {
    split.tasks.map(|tasks| tasks / count)
}

/// Index of the first of `count` tasks that make the composed one; `None` outside of a finite split. The indices of an
/// endless split begin again after the last one of 64 bits.
fn first_of(split: &Split, index: u64, count: u64) -> Option<u64> {
    let inside = tasks_of(split, count).is_none_or(|tasks| index < tasks);
    inside.then(|| index.wrapping_mul(count))
}

/// Text before the observations of a task.
fn title(index: usize, count: usize) -> String {
    format!("Task {} of {count}:", index + 1)
}

fn is_success(named: &NamedValue) -> bool {
    named.name == "success" && named.value == Value::Flag(true)
}

impl Parts {
    fn part(&self) -> &Part {
        &self.parts[self.current.min(self.parts.len() - 1)]
    }

    /// Facts of all ended tasks, with the number of the task as prefix, and the number of those that succeeded.
    fn facts(&self) -> Vec<NamedValue> {
        let ended = self.parts.iter().enumerate().filter_map(|(index, part)| Some((index, part.facts.as_ref()?)));
        let mut all: Vec<NamedValue> = Vec::new();
        let (mut solved, mut judged) = (0, true);
        for (index, facts) in ended {
            judged &= facts.iter().any(|fact| fact.name == "success");
            solved += i64::from(facts.iter().any(is_success));
            all.extend(facts.iter().map(|fact| named(format!("{}.{}", index + 1, fact.name), fact.value.clone())));
        }
        // An environment that leaves its judgement to rewards says nothing about success.
        if judged {
            all.push(named("solved", solved));
            all.push(named("success", solved == self.parts.len() as i64));
        }
        all
    }

    /// The result of a step that ended a task: the next one begins, or the episode ends.
    fn next(&mut self, mut result: StepResult) -> StepResult {
        let count = self.parts.len();
        self.parts[self.current].facts = Some(std::mem::take(&mut result.extras));
        self.current += 1;
        result.extras = self.facts();
        if self.current == count {
            return result;
        }
        (result.terminated, result.truncated, result.next_seat) = (false, false, self.part().seat);
        let words = format!("Task {} is over. Now answer task {}.", self.current, self.current + 1);
        let seat = result.next_seat;
        result.show(seat, text(words))
    }
}

/// The functions of all tasks, each once for each seat.
fn merged(all: Vec<SeatFunctions>) -> Vec<SeatFunctions> {
    let mut merged: Vec<SeatFunctions> = Vec::new();
    for SeatFunctions { seat, functions } in all {
        match merged.iter_mut().find(|known| known.seat == seat) {
            Some(known) => {
                for function in functions {
                    if known.functions.iter().all(|other| other.name != function.name) {
                        known.functions.push(function);
                    }
                }
            }
            None => merged.push(SeatFunctions { seat, functions }),
        }
    }
    merged
}

impl Wrapper for Compose {
    type Options = Options;
    type State = Parts;

    fn info(inner: &InnerInfo) -> Info {
        let Range { low, high } = inner.reward_range();
        inner.described(format!("{}; several tasks in one", inner.summary())).reward_range(low.min(0.0), high.max(0.0))
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        let split = |split: Split| Split { tasks: tasks_of(&split, options.tasks), ..split };
        Ok(inner_splits()?.into_iter().map(split).filter(|split| split.tasks != Some(0)).collect())
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Parts, Vec<Inner>, ResetResult), Error> {
        let count = options.tasks;
        let split = inner_splits()?.into_iter().find(|split| split.name == task.split);
        let first = split.and_then(|split| first_of(&split, task.index, count));
        let missing = || Error::not_found(format!("split `{}` has no task {} of {count}", task.split, task.index));
        let first = first.ok_or_else(missing)?;
        let (mut parts, mut episodes, mut all) = (Vec::new(), Vec::new(), ResetResult::default());
        for index in 0..count {
            let inside = Task { split: task.split.clone(), index: first.wrapping_add(index) };
            let (inner, result) = Inner::reset(&inside, seed)?;
            let tools: BTreeSet<&str> = all.tool_setups.iter().map(|setup| setup.tool.as_str()).collect();
            if let Some(twice) = result.tool_setups.iter().find(|setup| tools.contains(setup.tool.as_str())) {
                return Err(Error::Invalid(format!(
                    "tasks that set up the tool `{}` cannot be composed: it has one set-up in an episode",
                    twice.tool
                )));
            }
            let names = |offer: &SeatFunctions| {
                offer.functions.iter().map(|function| (offer.seat, function.name.clone())).collect::<Vec<_>>()
            };
            let offered = result.functions.iter().flat_map(names).collect();
            parts.push(Part { seat: result.next_seat, offered, facts: None });
            episodes.push(inner);
            let titled = ResetResult::default().show(result.next_seat, text(title(index as usize, count as usize)));
            all = all.followed_by(titled.followed_by(result));
        }
        all.next_seat = parts.first().map_or(0, |part| part.seat);
        all.functions = merged(all.functions);
        Ok((Parts { parts, current: 0 }, episodes, all))
    }

    fn step(episode: &mut Episode<Self>, action: Action) -> Result<StepResult, Error> {
        let Episode { state, episodes, .. } = episode;
        let (count, part) = (state.parts.len() as f64, state.part());
        if let Some(call) = action.call()
            && !part.offered.iter().any(|(seat, name)| (*seat, name) == (action.seat, &call.name))
        {
            let words = format!("Function `{}` is not one of task {}.", call.name, state.current + 1);
            return Ok(StepResult::new().show(action.seat, text(words)).next_seat(action.seat));
        }
        let inner = episodes.get(state.current).filter(|_| state.current < state.parts.len());
        let inner = inner.ok_or_else(|| Error::bad_snapshot("the snapshot has another number of tasks"))?;
        let mut result = inner.step(&action)?;
        result.rewards.iter_mut().for_each(|reward| reward.reward /= count);
        if result.terminated || result.truncated {
            return Ok(state.next(result));
        }
        state.parts[state.current].seat = result.next_seat;
        Ok(result)
    }

    fn current(state: &Parts) -> usize {
        state.current
    }

    /// The views of all tasks, with the number of the task as prefix.
    fn privileged(episode: &Episode<Self>) -> Result<Vec<NamedValue>, Error> {
        let mut all = Vec::new();
        for (index, inner) in episode.episodes.iter().enumerate() {
            let view = inner.privileged()?.into_iter();
            all.extend(view.map(|field| named(format!("{}.{}", index + 1, field.name), field.value)));
        }
        Ok(all)
    }
}

impl SnapshotState for Parts {
    fn write(&self, writer: Writer) -> Writer {
        self.parts.write(writer.integer(self.current as u64))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let (current, parts) = (reader.integer()?, Vec::<Part>::read(reader)?);
        if parts.is_empty() || current > parts.len() as u64 {
            return Err(Error::bad_snapshot("the snapshot has another number of tasks"));
        }
        Ok(Self { parts, current: current as usize })
    }
}

impl SnapshotState for Part {
    fn write(&self, writer: Writer) -> Writer {
        let head = writer.integer(self.seat.into()).integer(self.offered.len() as u64);
        let offered = |writer: Writer, (seat, name): &(u32, String)| writer.integer((*seat).into()).text(name);
        let head = self.offered.iter().fold(head, offered).flag(self.facts.is_some());
        head.named_values(self.facts.as_deref().unwrap_or_default())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let seat = read_seat(reader)?;
        let offered = (0..reader.integer()?)
            .map(|_| Ok((read_seat(reader)?, reader.text()?.to_owned())))
            .collect::<Result<_, Error>>()?;
        let ended = reader.flag()?;
        let facts = reader.named_values()?;
        Ok(Self { seat, offered, facts: Some(facts).filter(|_| ended) })
    }
}

fn read_seat(reader: &mut Reader<'_>) -> Result<u32, Error> {
    u32::try_from(reader.integer()?).map_err(|_| Error::bad_snapshot("a seat of the snapshot is out of range"))
}

plugin! { wrapper: Compose }

#[cfg(test)]
mod tests {
    use gymkhana_sdk::{Function, Parameters};

    use super::*;

    /// Two in one: of 7 tasks the first six make three. An endless split stays endless.
    #[test]
    fn splits_are_divided() {
        let finite = Split::of("test", 7);
        assert_eq!(tasks_of(&finite, 2), Some(3));
        assert_eq!([0, 2, 3].map(|index| first_of(&finite, index, 2)), [Some(0), Some(4), None]);
        let endless = Split::endless("train");
        assert_eq!(tasks_of(&endless, 2), None);
        assert_eq!(first_of(&endless, 1 << 40, 2), Some(1 << 41));
        assert_eq!(first_of(&endless, u64::MAX, 2), Some(u64::MAX - 1));
    }

    #[test]
    fn functions_of_all_tasks_are_offered_once() {
        let offer = |seat, names: &[&str]| SeatFunctions {
            seat,
            functions: names.iter().map(|name| Function::new(*name, "d", Parameters::new())).collect(),
        };
        let merged = merged(vec![offer(0, &["a", "b"]), offer(1, &["a"]), offer(0, &["b", "c"])]);
        let names: Vec<(u32, Vec<&str>)> = merged
            .iter()
            .map(|offer| (offer.seat, offer.functions.iter().map(|function| function.name.as_str()).collect()))
            .collect();
        assert_eq!(names, [(0, vec!["a", "b", "c"]), (1, vec!["a"])]);
    }
}
