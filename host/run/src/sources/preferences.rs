//! Preferences of a stage that plays nothing: from recorded episodes, or from the answers of files.

use std::path::PathBuf;

use gymkhana_config::RecordedPreferences;
use gymkhana_data::{Conversation, Place, Preference, preferences};
use gymkhana_orchestration::recorded_runs::{RecordedRun, count_matches};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Seed, Segment, TaskRef};

use super::conversation::{kept, segments};
use super::records::{named, opened};
use super::{Learner, pairs};

/// Weight version of recorded tokens, which is that of no weights of this run.
const OTHER_WEIGHTS: u32 = u32::MAX;

/// Reads the preferences of a stage: pairs with the better episode first, or single episodes, which are desirable if their
/// reward is above 0.
pub(super) fn read(
    recorded: &RecordedPreferences,
    are_pairs: bool,
    learner: Learner<'_>,
    reporter: &dyn Reporter,
) -> RunResult<Vec<Vec<EpisodeRecord>>> {
    let read = match &recorded.files[..] {
        [] => of_runs(recorded, are_pairs, learner)?,
        files => of_files(files, recorded.skip_bad, are_pairs, learner, reporter)?,
    };
    if !are_pairs {
        let desirable = read.iter().flatten().filter(|episode| episode.success).count();
        if desirable == 0 || desirable == read.len() {
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
    learner: Learner<'_>,
) -> RunResult<Vec<Vec<EpisodeRecord>>> {
    let runs = opened(&recorded.runs, learner)?;
    if let Some(filter) = &recorded.filter {
        count_matches(&runs, filter)?;
    }
    let is_used = |run: &RecordedRun, record: &EpisodeRecord| {
        let fits = record.segments.iter().all(|segment| segment.len() <= learner.context);
        record.sampled_tokens() > 0 && fits && run.meets(record, recorded.filter.as_ref())
    };
    let records = runs.iter().enumerate().flat_map(|(place, run)| {
        let used = run.records().filter(|record| record.as_ref().map_or(true, |record| is_used(run, record)));
        used.map(move |record| Ok((place, record?)))
    });
    if are_pairs {
        return pairs::of_tasks(records, recorded);
    }
    let labelled = |(_, record): (usize, EpisodeRecord)| {
        let rewards = vec![f64::from(u8::from(record.success)); record.rewards.len()];
        vec![EpisodeRecord { rewards, ..record }]
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
    mut may_skip: u64,
    are_pairs: bool,
    learner: Learner<'_>,
    reporter: &dyn Reporter,
) -> RunResult<Vec<Vec<EpisodeRecord>>> {
    let (mut read, mut too_long, mut row) = (Vec::new(), 0, 0);
    for file in files {
        let found = preferences(file, may_skip).user_error()?;
        for (place, preference) in kept(found, file, &mut may_skip, reporter) {
            let group = episodes(learner, (&place, row), preference)?;
            row += 1;
            if are_pairs && group.len() != 2 {
                return Err(RunError::user(format!(
                    "{place}: the row has one answer with a label, but the stage compares two answers"
                ))
                .with_hint("set kind = \"kto\", or name files with `chosen` and `rejected`"));
            }
            if group.iter().flat_map(|episode| &episode.segments).any(|segment| segment.len() > learner.context) {
                too_long += 1;
            } else if are_pairs {
                read.push(group);
            } else {
                read.extend(group.into_iter().map(|episode| vec![episode]));
            }
        }
    }
    report_too_long(too_long, row, learner.context, reporter)?;
    Ok(read)
}

/// Reports rows that exceed the context. If all of them do, there is nothing to train on.
fn report_too_long(too_long: u64, rows: u64, context: usize, reporter: &dyn Reporter) -> RunResult<()> {
    let hint = "raise policy.tiny.context or limits.context_tokens, or remove long rows";
    if too_long == rows {
        let message = format!("all {rows} rows exceed the context of {context} tokens");
        return Err(RunError::user(message).with_hint(hint));
    }
    if too_long > 0 {
        reporter.warn(&format!(
            "{too_long} of {rows} preferences are left out: they exceed the context of {context} tokens\nhint: {hint}"
        ));
    }
    Ok(())
}

/// Episodes of a row: two of them with rewards 1 and 0, or one with the reward of its label.
fn episodes(learner: Learner<'_>, at: (&Place, u64), preference: Preference) -> RunResult<Vec<EpisodeRecord>> {
    let answers: Vec<(Conversation, bool)> = match preference {
        Preference::Pair { chosen, rejected } => vec![(chosen, true), (rejected, false)],
        Preference::Labelled { conversation, is_desirable } => vec![(conversation, is_desirable)],
    };
    let episode = |(member, (conversation, is_good)): (u32, (Conversation, bool))| {
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
    record.segments = record.segments.into_iter().map(of_other_weights).collect();
    record
}

fn of_other_weights(segment: Segment) -> Segment {
    let mut columns = segment.into_columns();
    let sampled = columns.sampled.iter();
    columns.versions.iter_mut().zip(sampled).filter(|(_, sampled)| **sampled).for_each(|(version, _)| {
        *version = OTHER_WEIGHTS;
    });
    // The lengths of the columns are unchanged.
    Segment::from_columns(columns).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_tokens_are_of_other_weights() {
        let mut segment = Segment::new(0);
        segment.append_given(&[1], 0);
        let (log_probs, entropies) = (vec![-0.5], vec![0.1]);
        let sampled = gymkhana_record::Sampled { tokens: vec![2], log_probs, entropies, versions: vec![3] };
        segment.append_sampled(&sampled, 0).expect("one token");
        let found = of_other_weights(segment.clone());
        assert_eq!(found.versions(), [0, u32::MAX]);
        assert_eq!((found.tokens(), found.log_probs()), (segment.tokens(), segment.log_probs()));
    }
}
