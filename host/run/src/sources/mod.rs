//! Demonstrations and preferences from recorded episodes and from files, read before a run writes anything.

mod conversation;
mod layout;
mod order;
mod pairs;
mod preferences;
mod records;

use std::collections::{BTreeMap, BTreeSet};

use gymkhana_chat::{ChatFiles, ChatFormat};
use gymkhana_config::{RlStage, RunFile, SftStage, SourceKind, Stage};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};
use gymkhana_record::{EpisodeRecord, Segment};

pub(crate) use order::{Passes, StageSources, oracle_tasks};

/// A demonstration: the contexts of an episode or of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Demonstration {
    /// Contexts; tokens marked as sampled are imitated.
    pub segments: Vec<Segment>,
    /// Weight of each token in the loss.
    pub weight: f64,
}

impl Demonstration {
    fn tokens(&self) -> usize {
        self.segments.iter().map(Segment::len).max().unwrap_or(0)
    }
}

/// A source of a supervised stage.
#[derive(Debug)]
pub(crate) enum StageSource {
    /// The environment's oracle plays.
    Oracle,
    /// Demonstrations that were read.
    Given(Vec<Demonstration>),
}

/// Recorded data of stages, by the stage's index.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Sources of supervised stages. A stage without an entry has the oracle.
    pub demonstrations: BTreeMap<usize, Vec<StageSource>>,
    /// Preferences of stages that play nothing: pairs, the better episode first, or single episodes, which are desirable
    /// if their reward is above 0.
    pub preferences: BTreeMap<usize, Vec<Vec<EpisodeRecord>>>,
    /// Names of the functions that conversations of files call; without an entry of a stage that calls none.
    pub called: BTreeMap<usize, FunctionNames>,
}

/// Names of called functions.
pub(crate) type FunctionNames = BTreeSet<String>;

/// The model that learns from sources.
#[derive(Clone, Copy)]
pub(crate) struct LearningModel<'a> {
    /// Files of the model's chat format.
    pub files: &'a ChatFiles,
    /// The chat format.
    pub chat: &'a ChatFormat,
    /// Context length in tokens.
    pub context: usize,
}

/// Reads the sources of all stages from `first` on.
///
/// # Errors
/// If a source cannot be read, is of another tokenizer, or has no demonstration.
pub(crate) fn read(
    file: &RunFile,
    first: usize,
    learner: LearningModel<'_>,
    reporter: &dyn Reporter,
) -> RunResult<Sources> {
    let mut sources = Sources::default();
    for (index, stage) in file.stages.iter().enumerate().skip(first) {
        match stage {
            Stage::Sft(stage) if !stage.source.is_empty() => {
                let mut called = FunctionNames::new();
                sources.demonstrations.insert(index, of_stage(stage, learner, &mut called, reporter)?);
                sources.called.insert(index, called);
            }
            Stage::Rl(stage @ RlStage { name, recorded: Some(recorded), .. }) => {
                let are_pairs = stage.settings().user_error()?.algorithm.pairs();
                let mut called = FunctionNames::new();
                let read = preferences::read(recorded, are_pairs, learner, &mut called, reporter);
                let read = read.map_err(|error| error.prefixed(format!("stage `{name}`, recorded")))?;
                sources.preferences.insert(index, read);
                sources.called.insert(index, called);
            }
            Stage::Sft(_) | Stage::Rl(_) | Stage::BestOfN(_) => {}
        }
    }
    sources.called.retain(|_, called| !called.is_empty());
    Ok(sources)
}

fn of_stage(
    stage: &SftStage,
    learner: LearningModel<'_>,
    called: &mut FunctionNames,
    reporter: &dyn Reporter,
) -> RunResult<Vec<StageSource>> {
    let mut sources = Vec::new();
    for (index, section) in stage.source.iter().enumerate() {
        let of = format!("stage `{}`, source {index}", stage.name);
        let blame = |error: RunError| error.prefixed(&of);
        let read = match section.kind() {
            None | Some(SourceKind::Oracle) => {
                sources.push(StageSource::Oracle);
                continue;
            }
            Some(SourceKind::Runs(runs)) => {
                records::read(runs, &section.filter(), learner, stage.train_observations).map_err(blame)?
            }
            Some(SourceKind::Chat(files)) => {
                let read = conversation::read(files, section, learner, stage.train_observations, called, reporter);
                read.map_err(blame)?
            }
        };
        sources.push(StageSource::Given(fitting(read, learner.context, &of, reporter)?));
    }
    Ok(sources)
}

/// The demonstrations that fit the context. Longer ones are reported.
fn fitting(
    mut read: Vec<Demonstration>,
    context: usize,
    of: &str,
    reporter: &dyn Reporter,
) -> RunResult<Vec<Demonstration>> {
    let all = read.len();
    read.retain(|demonstration| demonstration.tokens() <= context);
    let left_out = all - read.len();
    let hint = "raise policy.tiny.context or limits.context_tokens, or filter them out with `where = \"length <= …\"`";
    if read.is_empty() {
        let message = format!("{of}: all {all} demonstrations exceed the context of {context} tokens");
        return Err(RunError::user(message).with_hint(hint));
    }
    if left_out > 0 {
        reporter.warn(&format!(
            "{of}: {left_out} of {all} demonstrations are left out: they exceed the context of {context} tokens\nhint: \
             {hint}"
        ));
    }
    Ok(read)
}
