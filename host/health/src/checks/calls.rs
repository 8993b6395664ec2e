//! Checks of replies and calls: cut replies, malformed calls, functions that are never called.

use gymkhana_record::step_metrics::rl;

use super::{JudgedFigure, bound, mean, percent, share};
use crate::sums::{CUT, FunctionUse, StageFigures, UNKNOWN_FUNCTION};
use crate::usual::{CUT_REPLIES, LEAST_CALLS, LEAST_OFFERS, MALFORMED, SOLVED};

/// Remedy for calls in another format than the run's.
const SHOW_FORMAT: &str = "set `policy.tool_format` to the format of the model, show the form in `policy.system`, or raise \
                           `steps` of an sft stage";

/// Most kinds and functions that a text lists.
const LISTED: usize = 4;

pub(super) fn usual_cuts(_: &StageFigures) -> String {
    format!("at most {} of the replies", bound(CUT_REPLIES))
}

pub(super) fn cut_replies(stage: &StageFigures) -> Option<JudgedFigure> {
    let cut = mean(stage.metrics.iter().filter_map(|step| step.get(rl::CUT_REPLIES)))?;
    let text = format!("{} of the replies", percent(cut));
    Some(JudgedFigure::judged(cut <= CUT_REPLIES, text, || "raise `limits.reply_tokens`".to_owned()))
}

pub(super) fn usual_malformed(_: &StageFigures) -> String {
    format!("at most {} of the calls", bound(MALFORMED))
}

pub(super) fn malformed(stage: &StageFigures) -> Option<JudgedFigure> {
    let episodes = &stage.episodes;
    let malformed = episodes.malformed.total();
    let written = episodes.calls + malformed;
    if written == 0 {
        return None;
    }
    let part = share(malformed, written);
    let kinds = episodes.malformed.kinds.listed(LISTED);
    let text = format!("{} of {written} calls{}{kinds}", percent(part), if malformed == 0 { "" } else { "; " });
    Some(JudgedFigure::judged(part <= MALFORMED || written < LEAST_CALLS, text, || {
        let remedy = match episodes.malformed.main() {
            Some(CUT) => "raise `limits.reply_tokens`",
            Some(UNKNOWN_FUNCTION) => "name the functions in `policy.system`, or add their plugin to `plugins`",
            _ => SHOW_FORMAT,
        };
        remedy.to_owned()
    }))
}

pub(super) fn usual_functions(_: &StageFigures) -> String {
    "at least one function is called".to_owned()
}

/// A function that a good policy does not need is not a symptom; none at all is, unless the tasks are solved.
pub(super) fn functions(stage: &StageFigures) -> Option<JudgedFigure> {
    let episodes = &stage.episodes;
    let offered: Vec<(&String, FunctionUse)> = episodes.functions.iter().map(|(name, own)| (name, *own)).collect();
    if offered.is_empty() {
        return None;
    }
    let uncalled: Vec<String> =
        offered.iter().filter(|(_, own)| own.called == 0).map(|(name, _)| format!("`{name}`")).collect();
    let calls: u64 = offered.iter().map(|(_, own)| own.called).sum();
    let never = match uncalled.len() {
        0 => String::new(),
        count => {
            let more = if count > LISTED { ", …" } else { "" };
            format!("; never called: {}{more}", uncalled[..count.min(LISTED)].join(", "))
        }
    };
    let text = format!(
        "{} of {} called, {:.2} calls per episode{never}",
        offered.len() - uncalled.len(),
        offered.len(),
        calls as f64 / episodes.played.max(1) as f64
    );
    let unsolved: u64 = episodes.unsolved.iter().sum();
    let all: u64 = episodes.endings.iter().sum();
    let is_solved = 1.0 - share(unsolved, all) >= SOLVED;
    let is_judged = offered.iter().any(|(_, own)| own.offered >= LEAST_OFFERS);
    Some(JudgedFigure::judged(calls > 0 || is_solved || !is_judged, text, || SHOW_FORMAT.to_owned()))
}
