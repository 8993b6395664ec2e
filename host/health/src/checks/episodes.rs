//! Checks of episodes: endings, failures, prompts near the end of the context, slow turns.

use gymkhana_record::{Ending, FailureKind};

use super::{JudgedFigure, bound, percent, share};
use crate::sums::StageFigures;
use crate::usual::{CUT_SHORT, FAILED, NEAR_END, NEAR_END_SHARE, SLOW_SECONDS, SLOW_TIMES};

/// Remedy for contexts that are too narrow.
pub(super) const WIDER_CONTEXT: &str =
    "raise `limits.context_tokens` or `policy.tiny.context`, or set `context.strategy`";

/// Most causes that a text lists.
const LISTED: usize = 4;

/// Milliseconds of a second.
const MILLISECONDS: f64 = 1000.0;

pub(super) fn usual_endings(_: &StageFigures) -> String {
    format!("at most {} cut short without success", bound(CUT_SHORT))
}

pub(super) fn endings(stage: &StageFigures) -> Option<JudgedFigure> {
    let episodes = &stage.episodes;
    let all: Vec<(Ending, u64)> =
        Ending::ALL.into_iter().zip(episodes.endings).filter(|(_, count)| *count > 0).collect();
    let count: u64 = all.iter().map(|(_, count)| count).sum();
    if count == 0 {
        return None;
    }
    let mut parts = all;
    parts.sort_by_key(|(_, own)| std::cmp::Reverse(*own));
    let listed: Vec<String> =
        parts.iter().map(|(ending, own)| format!("{ending} {}", percent(share(*own, count)))).collect();
    let cut = Ending::ALL.into_iter().zip(episodes.unsolved).filter(|(ending, _)| ending.is_cut_short());
    let cut: Vec<(Ending, u64)> = cut.collect();
    let short = share(cut.iter().map(|(_, own)| own).sum(), count);
    let text = format!("{} cut short without success; {}", percent(short), listed.join(", "));
    let most = cut.iter().max_by_key(|(_, own)| *own).map_or(Ending::Truncated, |(ending, _)| *ending);
    Some(JudgedFigure::judged(short <= CUT_SHORT, text, || longer(most).to_owned()))
}

/// Remedy for episodes that end in this way.
fn longer(ending: Ending) -> &'static str {
    match ending {
        Ending::TurnLimit => "raise `limits.turns`",
        Ending::ContextLimit => WIDER_CONTEXT,
        Ending::CallLimit => "raise `limits.calls`",
        Ending::TimeLimit => "raise `limits.seconds`",
        Ending::EarlyStopped => "loosen `limits.early_stop`",
        Ending::Truncated | Ending::Terminated | Ending::EnvironmentFailed | Ending::AgentFailed | Ending::Dropped => {
            "raise the limit of the environment in `environment.options`, or use easier tasks"
        }
    }
}

pub(super) fn usual_failures(_: &StageFigures) -> String {
    format!("at most {} of the episodes", bound(FAILED))
}

pub(super) fn failures(stage: &StageFigures) -> Option<JudgedFigure> {
    let episodes = &stage.episodes;
    let count: u64 = episodes.endings.iter().sum();
    if count == 0 {
        return None;
    }
    let failed = share(episodes.failed, count);
    let causes = episodes.failures.listed(LISTED);
    let text = format!("{} of {count} episodes{}{causes}", percent(failed), if causes.is_empty() { "" } else { "; " });
    Some(JudgedFigure::judged(failed <= FAILED, text, || {
        let most = episodes.failures.sorted().first().map_or("", |(name, _)| *name).to_owned();
        let kind = FailureKind::ALL.into_iter().find(|kind| most.ends_with(&format!(": {kind}")));
        format!("see `host show DIR --episodes failed`, and {}", kind.map_or("correct the plugin", repaired))
    }))
}

/// Remedy for failures of this kind.
fn repaired(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Budget => "correct the plugin, or raise `sandbox.budget_seconds`",
        FailureKind::Fuel => "correct the plugin, or raise `sandbox.fuel_per_call`",
        FailureKind::Deadline => "correct the plugin, or raise `sandbox.wall_seconds`",
        FailureKind::Memory => "correct the plugin, or raise `sandbox.memory_mib`",
        FailureKind::ResultSize => "correct the plugin, or raise `sandbox.result_mib`",
        FailureKind::EpisodeSize => "correct the plugin, or raise `limits.episode_mib`",
        FailureKind::Capacity => "raise `sandbox.instances`",
        FailureKind::Refused => "correct `plugins.NAME.options` or the plugin",
        FailureKind::Trap | FailureKind::Malformed | FailureKind::Neighbour | FailureKind::Fault => {
            "correct the plugin; `failures.limit` bounds their share"
        }
    }
}

pub(super) fn usual_context(_: &StageFigures) -> String {
    format!("at most {} of the episodes", bound(NEAR_END_SHARE))
}

pub(super) fn context(stage: &StageFigures) -> Option<JudgedFigure> {
    let episodes = &stage.episodes;
    if episodes.with_context == 0 {
        return None;
    }
    let near = share(episodes.near_end, episodes.with_context);
    let text = format!(
        "{} with a prompt of at least {} of the context; the longest has {}",
        percent(near),
        bound(NEAR_END),
        percent(episodes.fullest)
    );
    Some(JudgedFigure::judged(near <= NEAR_END_SHARE, text, || WIDER_CONTEXT.to_owned()))
}

pub(super) fn usual_times(_: &StageFigures) -> String {
    format!("at most {SLOW_TIMES} times the median, or {SLOW_SECONDS} s")
}

/// Times of single turns are not recorded; the figure is the mean time per turn of each episode.
pub(super) fn times(stage: &StageFigures) -> Option<JudgedFigure> {
    let times = stage.episodes.times;
    let (slowest, median) = (times.slowest?, times.median()?);
    let text = format!(
        "{:.3} s per turn in episode {}, mostly {}; median at most {:.3} s",
        slowest.milliseconds / MILLISECONDS,
        slowest.episode,
        slowest.boundary,
        median / MILLISECONDS
    );
    let is_usual = slowest.milliseconds <= (SLOW_TIMES * median).max(SLOW_SECONDS * MILLISECONDS);
    Some(JudgedFigure::judged(is_usual, text, || {
        let bounded = match slowest.boundary {
            "policy" => "lower `limits.reply_tokens` or `policy.server.seconds`",
            _ => "lower `sandbox.wall_seconds`",
        };
        format!("{bounded}; `limits.seconds` ends long episodes")
    }))
}
