//! Conditions on episodes, by the options of an address.

use gymkhana_filter::{Episode, Filter as Expression};
use gymkhana_record::{Ending, EpisodeRecord, FailureKind, Phase, Turn, Value, text_of};
use gymkhana_store::{EpisodeRow, EpisodeTable, StoreError};

use crate::error::PageProblem;
use crate::query::{Query, WrongOption};

/// Purposes and phases that can be chosen, by their words. The purposes are those of `host data export --only`.
fn phases(word: &str) -> Option<Vec<Phase>> {
    let phases: Vec<Phase> = match word {
        "evaluation" => Phase::all().filter(|phase| phase.is_evaluation()).collect(),
        "demonstrations" => vec![Phase::Demonstration],
        other => Phase::all().filter(|phase| phase.word() == other).collect(),
    };
    (!phases.is_empty()).then_some(phases)
}

/// Which failures an episode must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureFilter {
    No,
    Any,
    Kind(FailureKind),
}

/// Conditions that an episode must meet.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct EpisodeFilter {
    stage: Option<u32>,
    phases: Option<Vec<Phase>>,
    success: Option<bool>,
    ending: Option<Ending>,
    reward_min: Option<f64>,
    reward_max: Option<f64>,
    step_min: Option<u64>,
    step_max: Option<u64>,
    environment: Option<String>,
    failed: Option<FailureFilter>,
    /// In lower case.
    text: Option<String>,
    /// The expression of `host data export --where`.
    expression: Option<Expression>,
}

impl EpisodeFilter {
    /// Reads the conditions of a query.
    pub fn parse(query: &Query) -> Result<Self, PageProblem> {
        let phases = match query.get("phase") {
            None => None,
            Some(word) => Some(phases(word).ok_or_else(|| WrongOption {
                key: "phase",
                value: word.to_owned(),
                expected: "train, evaluation, demonstrations, or a phase such as before~",
            })?),
        };
        let failed = match query.get("failure") {
            None => None,
            Some("none") => Some(FailureFilter::No),
            Some("any") => Some(FailureFilter::Any),
            Some(word) => {
                let kind = FailureKind::ALL.into_iter().find(|kind| kind.to_string() == word);
                let expected = "none, any, or a kind of failure such as trap";
                let wrong = || WrongOption { key: "failure", value: word.to_owned(), expected };
                Some(FailureFilter::Kind(kind.ok_or_else(wrong)?))
            }
        };
        Ok(Self {
            stage: query.parsed("stage", "the number of a stage, from 0")?,
            phases,
            success: query.choice("success", &[("yes", true), ("no", false)], "yes or no")?,
            ending: query.parsed("ending", "an ending such as turn-limit")?,
            reward_min: query.parsed("reward_min", "a number")?,
            reward_max: query.parsed("reward_max", "a number")?,
            step_min: query.parsed("step_min", "the number of a step")?,
            step_max: query.parsed("step_max", "the number of a step")?,
            environment: query.get("environment").map(str::to_owned),
            failed,
            text: query.get("text").map(str::to_lowercase),
            expression: query.get("where").map(Expression::parse).transpose()?,
        })
    }

    /// Whether the row meets the conditions that rows can decide.
    pub fn admits_row(&self, row: &EpisodeRow) -> bool {
        self.stage.is_none_or(|stage| row.id.stage == stage)
            && self.phases.as_ref().is_none_or(|phases| phases.contains(&row.id.phase))
            && self.success.is_none_or(|success| row.success == success)
            && self.ending.is_none_or(|ending| row.ending == ending)
            && self.reward_min.is_none_or(|least| row.reward.is_some_and(|reward| reward >= least))
            && self.reward_max.is_none_or(|most| row.reward.is_some_and(|reward| reward <= most))
            && self.step_min.is_none_or(|first| row.id.step >= first)
            && self.step_max.is_none_or(|last| row.id.step <= last)
    }

    /// Whether records have to be read to decide about episodes.
    pub fn needs_records(&self) -> bool {
        self.environment.is_some() || self.failed.is_some() || self.text.is_some() || self.expression.is_some()
    }

    /// Whether the episode at a position meets the conditions that rows cannot decide. Expressions read the whole record;
    /// `stages` are the names of the run's stages.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn admits(
        &self,
        table: &EpisodeTable,
        position: usize,
        outline: &EpisodeRecord,
        stages: &[String],
    ) -> Result<bool, StoreError> {
        if !self.admits_outline(outline) {
            return Ok(false);
        }
        let Some(expression) = &self.expression else { return Ok(true) };
        let stage = stages.get(outline.id.stage as usize).map_or("", String::as_str);
        let record = table.record(position)?;
        Ok(record.is_some_and(|record| expression.matches(Episode { record: &record, stage })))
    }

    fn admits_outline(&self, record: &EpisodeRecord) -> bool {
        let environment = || record.environment.as_deref().unwrap_or_default();
        let has_failed = |failed: FailureFilter| match failed {
            FailureFilter::No => record.failures.is_empty(),
            FailureFilter::Any => !record.failures.is_empty(),
            FailureFilter::Kind(kind) => record.failures.iter().any(|failure| failure.kind == kind),
        };
        self.environment.as_ref().is_none_or(|wanted| environment() == wanted)
            && self.failed.is_none_or(has_failed)
            && self.text.as_ref().is_none_or(|text| holds_text(record, text))
    }
}

/// Whether a text of the episode holds another one, which is in lower case: messages, calls, answers, observations,
/// notes, facts, logs and failures.
fn holds_text(record: &EpisodeRecord, wanted: &str) -> bool {
    let holds = |text: &str| text.to_lowercase().contains(wanted);
    let turn_holds = |turn: &Turn| match turn {
        Turn::Message { content, .. } | Turn::Answer { content, .. } | Turn::Observation { content, .. } => {
            holds(&text_of(content))
        }
        Turn::Call { call, .. } => holds(&call.name) || holds(&call.arguments),
        Turn::MalformedCall { text, .. } | Turn::Thought { text, .. } => holds(text),
    };
    let mut facts = [&record.extras, &record.privileged, &record.views].into_iter().flatten();
    record.turns.iter().any(turn_holds)
        || record.opening.observations.iter().any(|(_, content)| holds(&text_of(content)))
        || record.policy_turns.iter().filter_map(|turn| turn.note.as_deref()).any(holds)
        || facts.any(|fact| match &fact.value {
            Value::Text(text) | Value::Other(text) => holds(text),
            Value::Flag(_) | Value::Integer(_) | Value::Number(_) | Value::Bytes(_) => false,
        })
        || record.logs.iter().any(|entry| holds(&entry.text))
        || record.failures.iter().any(|failure| holds(&failure.message))
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Boundary, CallSite, EpisodeId, Failure, Part, Seed, TaskRef};

    use super::*;

    fn row(phase: Phase, reward: Option<f64>) -> EpisodeRow {
        let id = EpisodeId { stage: 1, phase, step: 5, group: 0, member: 0, attempt: 0 };
        let (ending, success) = (Ending::Terminated, true);
        EpisodeRow { id, split: "train".into(), task: 0, ending, success, reward, calls: 0, sampled_tokens: 0 }
    }

    fn filter(query: &str) -> EpisodeFilter {
        EpisodeFilter::parse(&Query::parse(query)).unwrap()
    }

    #[test]
    fn rows_are_admitted_by_every_condition() {
        let train = row(Phase::Train, Some(0.5));
        for query in [
            "",
            "stage=1",
            "phase=train",
            "success=yes",
            "ending=terminated",
            "reward_min=0.5&reward_max=0.5",
            "step_min=5",
        ] {
            assert!(filter(query).admits_row(&train), "{query}");
        }
        for query in ["stage=0", "phase=evaluation", "success=no", "ending=dropped", "reward_min=0.6", "step_max=4"] {
            assert!(!filter(query).admits_row(&train), "{query}");
        }
        assert!(filter("phase=evaluation").admits_row(&row(Phase::DuringSampled, None)));
        assert!(filter("phase=during~").admits_row(&row(Phase::DuringSampled, None)));
        assert!(!filter("reward_max=1").admits_row(&row(Phase::Train, None)), "an episode without a reward");
    }

    #[test]
    fn wrong_words_are_refused() {
        for query in
            ["stage=x", "phase=play", "success=1", "ending=End", "failure=crash", "reward_min=low", "where=succes"]
        {
            assert!(EpisodeFilter::parse(&Query::parse(query)).is_err(), "{query}");
        }
    }

    #[test]
    fn records_are_searched_in_all_their_texts() {
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        let mut record = EpisodeRecord::new(row(Phase::Train, None).id, task, Seed(0), Ending::Terminated);
        record.environment = Some("lake".to_owned());
        record.turns.push(Turn::Message { seat: 0, content: vec![Part::Text("I go to the Ä shore".to_owned())] });
        let message = "stack \"overflow\"".to_owned();
        let at = Boundary::Tool("sql".to_owned());
        record.failures.push(Failure { at, kind: FailureKind::Trap, call_site: CallSite::Score, message });
        for query in ["text=ä+SHORE", "text=%22overflow", "environment=lake", "failure=any", "failure=trap"] {
            assert!(filter(query).needs_records() && filter(query).admits_outline(&record), "{query}");
        }
        for query in ["text=river", "environment=sea", "failure=none", "failure=fuel"] {
            assert!(!filter(query).admits_outline(&record), "{query}");
        }
    }
}
