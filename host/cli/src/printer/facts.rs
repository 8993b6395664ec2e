//! Facts of a piece of work in words: time, success, other figures, use of time.

use gymkhana_orchestration::{ProgressFigures, SuccessRate};

use crate::escape::escape_line;

/// Blocks of a curve, from 0 to 1.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Time of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Time {
    /// It cannot be estimated yet.
    Unknown,
    /// Seconds until the end of the run; a lower bound if work of unknown duration follows.
    Left { seconds: f64, at_least: bool },
    /// Seconds that the finished work took.
    Took(f64),
}

/// Facts of a piece of work.
#[derive(Debug)]
pub struct ProgressFacts<'a> {
    /// Time.
    pub time: Time,
    /// Figures of the last step.
    pub figures: &'a ProgressFigures,
    /// Success of the last steps, 0 to 1.
    pub recent: &'a [f64],
    /// Use of time in words.
    pub waits: &'a str,
}

/// The facts without the time for a line that is cut where the terminal ends: the most important first.
pub fn line(facts: &ProgressFacts<'_>) -> String {
    let success = facts.figures.success.map(|success| match success {
        SuccessRate::SoFar { .. } => success_text(success),
        SuccessRate::OfStep(_) => format!("{} {}", success_text(success), curve(facts.recent)),
    });
    let others = facts.figures.others.iter().map(|figure| escape_line(figure));
    let waits = Some(facts.waits.to_owned()).filter(|waits| !waits.is_empty());
    success.into_iter().chain(others).chain(waits).collect::<Vec<_>>().join(" ")
}

/// All facts for a line of a log, each after a comma or semicolon.
pub fn plain(facts: &ProgressFacts<'_>) -> String {
    let left = match facts.time {
        Time::Left { .. } => time_text(facts.time),
        Time::Unknown | Time::Took(_) => None,
    };
    let success = facts.figures.success.map(success_text);
    let pieces = left.iter().chain(&success).chain(&facts.figures.others);
    let mut line: String = pieces.map(|piece| format!(", {}", escape_line(piece))).collect();
    if !facts.waits.is_empty() {
        line.push_str("; ");
        line.push_str(facts.waits);
    }
    line
}

/// The time in words; `None` if it cannot be estimated.
pub fn time_text(time: Time) -> Option<String> {
    match time {
        Time::Unknown => None,
        Time::Left { seconds, at_least } => {
            Some(format!("eta {}{}", if at_least { ">" } else { "" }, duration(seconds)))
        }
        Time::Took(seconds) => Some(format!("in {}", duration(seconds))),
    }
}

fn success_text(success: SuccessRate) -> String {
    match success {
        SuccessRate::SoFar { played: 0, .. } => "success of 0 episodes".to_owned(),
        SuccessRate::SoFar { solved, played } => {
            format!("success {} ({solved}/{played})", percent(solved as f64 / played as f64))
        }
        SuccessRate::OfStep(share) => format!("success {}", percent(share)),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Shares as block characters.
fn curve(shares: &[f64]) -> String {
    let block = |share: &f64| BLOCKS[((share.clamp(0.0, 1.0) * 8.0) as usize).min(7)];
    shares.iter().map(block).collect()
}

/// A duration in at most six characters below 100 days.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        600..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> ProgressFigures {
        let others = vec!["reward 0.125".to_owned(), "1200 tokens/s\u{1b}[2J".to_owned()];
        ProgressFigures { success: Some(SuccessRate::OfStep(0.41)), others }
    }

    #[test]
    fn lines_have_the_facts_in_their_order_and_cannot_steer_the_terminal() {
        let figures = figures();
        let time = Time::Left { seconds: 725.0, at_least: false };
        let facts =
            ProgressFacts { time, figures: &figures, recent: &[0.0, 0.3, 0.5, 1.0], waits: "time: 81 % training" };
        let shown = "success 41.0 % ▁▃▅█ reward 0.125 1200 tokens/s\\u{1b}[2J time: 81 % training";
        assert_eq!(line(&facts), shown);
        let shown = ", eta 12m, success 41.0 %, reward 0.125, 1200 tokens/s\\u{1b}[2J; time: 81 % training";
        assert_eq!(plain(&facts), shown);
    }

    #[test]
    fn a_measurement_shows_its_counts() {
        let so_far = |solved, played| {
            let success = Some(SuccessRate::SoFar { solved, played });
            let figures = ProgressFigures { success, others: vec![] };
            line(&ProgressFacts { time: Time::Unknown, figures: &figures, recent: &[], waits: "" })
        };
        assert_eq!(so_far(3, 8), "success 37.5 % (3/8)");
        assert_eq!(so_far(0, 0), "success of 0 episodes");
    }

    #[test]
    fn times_are_lower_bounds_before_unknown_work() {
        let texts = [
            Time::Left { seconds: 59.0, at_least: true },
            Time::Left { seconds: 59.0, at_least: false },
            Time::Took(3.2),
            Time::Unknown,
        ];
        let texts = texts.map(|time| time_text(time).unwrap_or_default());
        assert_eq!(texts, ["eta >59s", "eta 59s", "in 3s", ""]);
    }

    #[test]
    fn durations_are_short() {
        let texts = [0.4, 59.0, 60.0, 599.0, 600.0, 3599.0, 3600.0, 86_399.0, 90_000.0].map(duration);
        assert_eq!(texts, ["0s", "59s", "1m00s", "9m59s", "10m", "59m", "1h00m", "23h59m", "1d01h"]);
    }

    #[test]
    fn a_curve_has_eight_levels() {
        assert_eq!(curve(&[0.0, 0.124, 0.125, 0.5, 0.874, 0.875, 1.0, 2.0]), "▁▁▂▅▇███");
    }
}
