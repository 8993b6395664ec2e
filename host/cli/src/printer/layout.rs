//! Layout of the progress line: a function of the width and the figures.
//!
//! The line has a name, a bar and the position, then as many further pieces as fit, the most important first: time,
//! success, other figures, use of time.

use gymkhana_orchestration::{ProgressFigures, SuccessRate};

use crate::escape::escape_line;

/// Cells of the smallest and of the largest bar.
const BAR: (usize, usize) = (4, 20);

/// Columns around the cells of a bar: a space and two brackets.
const FRAME: usize = 3;

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

/// Content of the line.
#[derive(Debug)]
pub struct Content<'a> {
    /// Name of the work.
    pub name: &'a str,
    /// Number of finished steps.
    pub done: u64,
    /// Number of steps.
    pub length: u64,
    /// Time.
    pub time: Time,
    /// Figures of the last step.
    pub figures: &'a ProgressFigures,
    /// Success of the last steps, 0 to 1.
    pub recent: &'a [f64],
    /// Use of time in words.
    pub waits: &'a str,
}

/// The line for a terminal of `width` columns. It leaves the last column free, since some terminals wrap there.
pub fn line(width: usize, content: &Content<'_>) -> String {
    let position = format!(" {}/{}", content.done, content.length);
    let mut room = width.saturating_sub(1);
    let name = cut(&escape_line(content.name), room.saturating_sub(position.len()));
    room = room.saturating_sub(columns(&name) + position.len());
    let has_bar = room >= BAR.0 + FRAME;
    if has_bar {
        room -= BAR.0 + FRAME;
    }
    let mut tail = String::new();
    for variants in pieces(content) {
        if let Some(piece) = variants.iter().find(|piece| columns(piece) < room) {
            room -= columns(piece) + 1;
            tail.push(' ');
            tail.push_str(piece);
        }
    }
    let cells = (BAR.0 + room).min(BAR.1);
    let bar = if has_bar { bar(cells, content.done, content.length) } else { String::new() };
    cut(&format!("{name}{bar}{position}{tail}"), width.saturating_sub(1))
}

/// The line for a log: all pieces in full.
pub fn plain(seconds: f64, rate: f64, content: &Content<'_>) -> String {
    let Content { name, done, length, figures, waits, .. } = content;
    let mut line = format!("{} {done}/{length} {seconds:.0} s {rate:.1}/s", escape_line(name));
    let left = match content.time {
        Time::Left { .. } => time_text(content.time),
        Time::Unknown | Time::Took(_) => None,
    };
    let success = figures.success.map(success_text);
    for piece in left.iter().chain(&success).chain(&figures.others) {
        line.push_str(", ");
        line.push_str(&escape_line(piece));
    }
    if !waits.is_empty() {
        line.push_str("; ");
        line.push_str(waits);
    }
    line
}

/// The optional pieces, the most important first. Each has variants, the longest first.
fn pieces(content: &Content<'_>) -> Vec<Vec<String>> {
    let time = time_text(content.time).into_iter().collect();
    let success = content.figures.success.map_or_else(Vec::new, |success| match success {
        SuccessRate::SoFar { solved, played } => vec![success_text(success), format!("success {solved}/{played}")],
        SuccessRate::OfStep(share) => {
            let text = success_text(success);
            vec![format!("{text} {}", curve(content.recent)), text, percent(share)]
        }
    });
    let others = content.figures.others.iter().map(|figure| vec![escape_line(figure)]);
    let mut pieces = vec![time, success];
    pieces.extend(others);
    pieces.push(beginnings(content.waits));
    pieces
}

fn time_text(time: Time) -> Option<String> {
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

/// A text and its beginnings before a comma or semicolon, the longest first.
fn beginnings(text: &str) -> Vec<String> {
    let ends = text.char_indices().filter(|(_, letter)| matches!(letter, ',' | ';')).map(|(end, _)| end);
    let mut beginnings: Vec<String> = ends.chain([text.len()]).map(|end| text[..end].to_owned()).collect();
    beginnings.reverse();
    beginnings.retain(|beginning| !beginning.is_empty());
    beginnings
}

fn bar(cells: usize, done: u64, length: u64) -> String {
    let share = if length == 0 { 1.0 } else { (done as f64 / length as f64).min(1.0) };
    let full = (share * cells as f64) as usize;
    format!(" [{}{}]", "#".repeat(full), "-".repeat(cells - full))
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

/// Columns of a text, at least as many as a terminal takes: characters beyond ASCII count two, except blocks.
pub fn columns(text: &str) -> usize {
    text.chars().map(column).sum()
}

fn column(character: char) -> usize {
    if character.is_ascii() || BLOCKS.contains(&character) || character == '…' { 1 } else { 2 }
}

/// The beginning of a text that takes at most `room` columns.
fn cut(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(1);
    let fits = |character: &char| {
        let wide = column(*character);
        left.checked_sub(wide).is_some_and(|rest| {
            left = rest;
            true
        })
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    if room > 0 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(figures: &ProgressFigures) -> Content<'_> {
        Content {
            name: "rl: training",
            done: 34,
            length: 300,
            time: Time::Left { seconds: 725.0, at_least: false },
            figures,
            recent: &[0.0, 0.3, 0.5, 1.0],
            waits: "time: 81 % training, 12 % tools",
        }
    }

    fn figures() -> ProgressFigures {
        let others = vec!["reward 0.125".to_owned(), "1200 tokens/s".to_owned()];
        ProgressFigures { success: Some(SuccessRate::OfStep(0.41)), others }
    }

    /// A width of 40 leaves 39 columns: 12 for the name, 7 for the smallest bar, 7 for the position and 8 for the time;
    /// of the 5 that are left, the shortest success (" 41.0 %") takes 7, so that the bar gets them.
    #[test]
    fn a_narrow_line_has_bar_step_and_time() {
        let figures = figures();
        assert_eq!(line(40, &training(&figures)), "rl: training [#--------] 34/300 eta 12m");
        assert_eq!(line(42, &training(&figures)), "rl: training [----] 34/300 eta 12m 41.0 %");
    }

    /// The 79 columns are 19 for name and position, 7 for the smallest bar, 8 for the time, 20 for success with its
    /// curve and 13 for the reward. The 12 that are left are too few for the tokens (14), so that the bar gets them.
    #[test]
    fn a_wider_line_adds_success_figures_and_the_use_of_time_last() {
        let figures = figures();
        assert_eq!(
            line(80, &training(&figures)),
            "rl: training [#---------------] 34/300 eta 12m success 41.0 % ▁▃▅█ reward 0.125"
        );
        assert_eq!(
            line(120, &training(&figures)),
            "rl: training [#---------] 34/300 eta 12m success 41.0 % ▁▃▅█ reward 0.125 1200 tokens/s time: 81 % \
             training, 12 % tools"
        );
        assert_eq!(
            line(140, &training(&figures)),
            "rl: training [##------------------] 34/300 eta 12m success 41.0 % ▁▃▅█ reward 0.125 1200 tokens/s time: \
             81 % training, 12 % tools"
        );
    }

    #[test]
    fn no_line_reaches_the_width() {
        let long = ProgressFigures { others: vec!["x".repeat(300)], ..figures() };
        for name in ["rl: training", "measuring (sampled)", "漢字: demonstrations", "n".repeat(200).as_str()] {
            for width in 0..200 {
                let shown = line(width, &Content { name, ..training(&long) });
                assert!(columns(&shown) < width.max(1), "{width}: {shown}");
            }
        }
    }

    #[test]
    fn a_measurement_shows_its_counts() {
        let success = Some(SuccessRate::SoFar { solved: 3, played: 8 });
        let figures = ProgressFigures { success, others: vec![] };
        let content = Content {
            name: "measuring (greedy)",
            done: 8,
            length: 40,
            time: Time::Left { seconds: 59.0, at_least: true },
            figures: &figures,
            recent: &[],
            waits: "",
        };
        assert_eq!(line(80, &content), "measuring (greedy) [####----------------] 8/40 eta >59s success 37.5 % (3/8)");
        assert_eq!(line(60, &content), "measuring (greedy) [##----------] 8/40 eta >59s success 3/8");
        let none = ProgressFigures { success: Some(SuccessRate::SoFar { solved: 0, played: 0 }), others: vec![] };
        assert!(line(80, &Content { figures: &none, ..content }).ends_with("success of 0 episodes"));
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

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        let figures = ProgressFigures::default();
        let shown = line(80, &Content { name: "a\u{1b}[2J\n", ..training(&figures) });
        assert!(shown.starts_with("a\\u{1b}[2J\\n "), "{shown}");
    }

    #[test]
    fn a_log_line_has_everything() {
        let figures = figures();
        let shown = plain(12.3, 2.76, &training(&figures));
        let expected = "rl: training 34/300 12 s 2.8/s, eta 12m, success 41.0 %, reward 0.125, 1200 tokens/s; time: 81 % \
                        training, 12 % tools";
        assert_eq!(shown, expected);
    }
}
