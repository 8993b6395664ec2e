//! Warning about replies whose calls are not read.

use gymkhana_chat::ToolFormat;
use gymkhana_health::usual::{LIKE_CALLS, STEPS};
use gymkhana_record::{EpisodeRecord, Turn, text_of};

/// Messages of a step that are read.
const MOST: usize = 64;

/// Looks for calls in the messages of the first steps; warns once per run.
#[derive(Debug, Default)]
pub(crate) struct CallWatch {
    steps: u32,
    /// Whether a call was read, or the warning was given.
    is_done: bool,
}

impl CallWatch {
    /// Reads the episodes of a training step; returns the warning. `format` is the run's.
    pub fn step<'a>(
        &mut self,
        format: ToolFormat,
        records: impl Iterator<Item = &'a EpisodeRecord> + Clone,
    ) -> Option<String> {
        let calls = |record: &EpisodeRecord| record.calls() > record.malformed_calls();
        if self.is_done || records.clone().any(calls) {
            self.is_done = true;
            return None;
        }
        let offers = |record: &&EpisodeRecord| record.opening.functions.iter().any(|seat| !seat.functions.is_empty());
        let texts = records.filter(offers).flat_map(|record| &record.turns).filter_map(|turn| match turn {
            Turn::Message { content, .. } => Some(text_of(content)),
            Turn::MalformedCall { text, .. } => Some(text.clone()),
            Turn::Thought { .. } | Turn::Call { .. } | Turn::Answer { .. } | Turn::Observation { .. } => None,
        });
        let texts: Vec<String> = texts.take(MOST).collect();
        let alike = texts.iter().filter(|text| ToolFormat::resembles_call(text)).count();
        let share = alike as f64 / texts.len().max(1) as f64;
        self.steps = if share >= LIKE_CALLS { self.steps + 1 } else { 0 };
        if self.steps < STEPS {
            return None;
        }
        self.is_done = true;
        Some(format!(
            "{:.0} % of the messages look like calls, and none was read in {STEPS} steps in the format `{format}`\nhint: set \
             policy.tool_format to the format of the model, or show the form in policy.system",
            100.0 * share
        ))
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Ending, EpisodeId, Function, Part, Phase, SeatFunctions, Seed, TaskRef};

    use super::*;

    fn record(text: &str, functions: usize) -> EpisodeRecord {
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 };
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        let mut record = EpisodeRecord::new(id, task, Seed(0), Ending::Terminated);
        let (name, description, parameters) = ("f".to_owned(), String::new(), "{}".to_owned());
        let function = Function { name, description, parameters, cost: 0.0 };
        record.opening.functions = vec![SeatFunctions { seat: 0, functions: vec![function; functions] }];
        record.turns = vec![Turn::Message { seat: 0, content: vec![Part::Text(text.to_owned())] }];
        record
    }

    #[test]
    fn calls_of_another_format_warn_once() {
        let (call, plain) = (record("[f(a=1)]", 1), record("The answer is 7.", 1));
        let mut watch = CallWatch::default();
        let mut step = |record: &EpisodeRecord| watch.step(ToolFormat::Hermes, std::iter::once(record));
        assert_eq!((step(&call), step(&call), step(&plain)), (None, None, None));
        assert_eq!((step(&call), step(&call)), (None, None));
        let warning = step(&call).expect("three steps in a row");
        assert!(warning.starts_with("100 % of the messages look like calls"), "{warning}");
        assert!(warning.contains("`hermes`") && warning.contains("hint: set policy.tool_format"), "{warning}");
        assert_eq!(step(&call), None);
    }

    #[test]
    fn a_run_without_functions_or_with_calls_is_not_warned() {
        let mut watch = CallWatch::default();
        let without = record("[f(a=1)]", 0);
        assert!((0..9).all(|_| watch.step(ToolFormat::Hermes, std::iter::once(&without)).is_none()));
        let mut called = record("text", 1);
        let call = gymkhana_record::Call { id: "call-0".to_owned(), name: "f".to_owned(), arguments: "{}".to_owned() };
        called.turns.push(Turn::Call { seat: 0, call, cost: 0.0 });
        assert_eq!(watch.step(ToolFormat::Hermes, std::iter::once(&called)), None);
        let later = record("[f(a=1)]", 1);
        assert!((0..9).all(|_| watch.step(ToolFormat::Hermes, std::iter::once(&later)).is_none()));
    }
}
