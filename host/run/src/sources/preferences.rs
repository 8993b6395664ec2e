//! Preferences of a stage that plays nothing: from recorded episodes, or from the answers of files.

use std::path::PathBuf;

use gymkhana_config::RecordedPreferences;
use gymkhana_data::{ChatConversation, Preference, Skips, SourceLocation, preferences};
use gymkhana_orchestration::recorded_runs::{RecordedRun, count_matches};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Seed, TaskRef};

use super::conversation::{add_called, kept, segments};
use super::records::{named, opened};
use super::{FunctionNames, LearningModel, pairs};

/// Weight version of recorded tokens, which is that of no weights of this run.
const OTHER_WEIGHTS: u32 = u32::MAX;

/// Reads the preferences of a stage: pairs with the better episode first, or single episodes, which are desirable if their
/// reward is above 0.
pub(super) fn read(
    recorded: &RecordedPreferences,
    are_pairs: bool,
    learner: LearningModel<'_>,
    called: &mut FunctionNames,
    reporter: &dyn Reporter,
) -> RunResult<Vec<Vec<EpisodeRecord>>> {
    let read = match &recorded.files[..] {
        [] => of_runs(recorded, are_pairs, learner)?,
        files => of_files(files, recorded.skip_bad, are_pairs, learner, called, reporter)?,
    };
    if !are_pairs {
        let rewards: Vec<f64> = read.iter().flatten().flat_map(|episode| episode.rewards.clone()).collect();
        let desirable = rewards.iter().filter(|reward| **reward > 0.0).count();
        if desirable == 0 || desirable == rewards.len() {
            let kind = if desirable == 0 { "undesirable" } else { "desirable" };
            let message = format!("all {} episodes are {kind}: there is nothing to prefer", read.len());
            return Err(RunError::user(message).with_hint("add episodes of the other kind"));
        }
    }
    Ok(read.into_iter().map(|group| group.into_iter().map(alone).collect()).collect())
}

fn of_runs(
    recorded: &RecordedPreferences,
    are_pairs: bool,
    learner: LearningModel<'_>,
) -> RunResult<Vec<Vec<EpisodeRecord>>> {
    let runs = opened(&recorded.runs, learner)?;
    if let Some(filter) = &recorded.filter {
        count_matches(&runs, filter)?;
    }
    let is_used = |run: &RecordedRun, record: &EpisodeRecord| {
        let fits = fits(std::slice::from_ref(record), learner.context);
        record.sampled_tokens() > 0 && fits && run.meets(record, recorded.filter.as_ref())
    };
    let records = runs.iter().enumerate().flat_map(|(place, run)| {
        let used = run.records().filter(|record| record.as_ref().map_or(true, |record| is_used(run, record)));
        used.map(move |record| Ok((place, record?)))
    });
    if are_pairs {
        return pairs::of_tasks(records, recorded);
    }
    let labelled = |(_, mut record): (usize, EpisodeRecord)| {
        // The success rule is about one seat; with several, each has its own reward.
        if let [reward] = &mut record.rewards[..] {
            *reward = f64::from(u8::from(record.success));
        }
        vec![record]
    };
    let found: Vec<Vec<EpisodeRecord>> = records.map(|record| record.map(labelled)).collect::<RunResult<_>>()?;
    if found.is_empty() {
        let message = format!("no episode of {} can be used", named(&recorded.runs));
        let hint = "loosen `recorded.where`; `host show DIR --episodes all` lists the episodes";
        return Err(RunError::user(message).with_hint(hint));
    }
    Ok(found)
}

fn of_files(
    files: &[PathBuf],
    skip_bad: u64,
    are_pairs: bool,
    learner: LearningModel<'_>,
    called: &mut FunctionNames,
    reporter: &dyn Reporter,
) -> RunResult<Vec<Vec<EpisodeRecord>>> {
    let (mut read, mut all, mut rows) = (Vec::new(), 0, 0);
    let mut skips = Skips::at_most(skip_bad);
    for file in files {
        let found = preferences(file, &mut skips).user_error()?;
        for (place, preference) in kept(found, file, reporter) {
            // The worse answer may call what it should not.
            match &preference {
                Preference::Pair { chosen: good, .. }
                | Preference::Labelled { conversation: good, is_desirable: true } => add_called(good, called),
                Preference::Labelled { is_desirable: false, .. } => {}
            }
            let row = episodes(learner, (&place, rows), preference)?;
            rows += 1;
            if are_pairs && row.len() != 2 {
                return Err(RunError::user(format!(
                    "{place}: the row has one answer with a label, but the stage compares two answers"
                ))
                .with_hint("set kind = \"kto\", or name files with `chosen` and `rejected`"));
            }
            let groups = if are_pairs { vec![row] } else { row.into_iter().map(|episode| vec![episode]).collect() };
            all += groups.len();
            read.extend(groups.into_iter().filter(|group| fits(group, learner.context)));
        }
    }
    report_too_long(all - read.len(), all, learner.context, reporter)?;
    Ok(read)
}

/// Whether all contexts of a group fit into the model's.
fn fits(group: &[EpisodeRecord], context: usize) -> bool {
    group.iter().flat_map(|episode| &episode.segments).all(|segment| segment.len() <= context)
}

/// Reports preferences that exceed the context. If all of them do, there is nothing to train on.
fn report_too_long(too_long: usize, all: usize, context: usize, reporter: &dyn Reporter) -> RunResult<()> {
    let hint = "raise policy.tiny.context or limits.context_tokens, or remove long rows";
    if too_long == all {
        let message = format!("all {all} preferences exceed the context of {context} tokens");
        return Err(RunError::user(message).with_hint(hint));
    }
    if too_long > 0 {
        reporter.warn(&format!(
            "{too_long} of {all} preferences are left out: they exceed the context of {context} tokens\nhint: {hint}"
        ));
    }
    Ok(())
}

/// Episodes of a row: two of them with rewards 1 and 0, or one with the reward of its label.
fn episodes(
    learner: LearningModel<'_>,
    at: (&SourceLocation, u64),
    preference: Preference,
) -> RunResult<Vec<EpisodeRecord>> {
    let answers: Vec<(ChatConversation, bool)> = match preference {
        Preference::Pair { chosen, rejected } => vec![(chosen, true), (rejected, false)],
        Preference::Labelled { conversation, is_desirable } => vec![(conversation, is_desirable)],
    };
    let episode = |(member, (conversation, is_good)): (u32, (ChatConversation, bool))| {
        let (place, row) = at;
        let group = u32::try_from(row).unwrap_or(u32::MAX);
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group, member, attempt: 0 };
        let task = TaskRef { split: "file".to_owned(), index: row };
        Ok(EpisodeRecord {
            rewards: vec![f64::from(u8::from(is_good))],
            success: is_good,
            segments: segments(learner.chat, place, &conversation, false)?,
            ..EpisodeRecord::new(id, task, Seed(0), Ending::Terminated)
        })
    };
    (0..).zip(answers).map(episode).collect()
}

/// The episode without its tree: shared turns count in both episodes of a pair, where their log-ratios cancel. Its tokens
/// are those of other weights.
fn alone(mut record: EpisodeRecord) -> EpisodeRecord {
    record.forks.clear();
    record.segments.iter_mut().for_each(|segment| segment.set_version(OTHER_WEIGHTS));
    record
}
