//! A run in a terminal: lines that fit, each line once, curves and colours.

use std::collections::HashSet;
use std::fs;

use crate::common::terminal::{in_terminal, screen};
use crate::common::{Desk, SMALL_GAME, SMALL_RUN, TIC_TAC_TOE, WORD_PROBLEMS, run_arguments};
use gymkhana_record::{EpisodeRecord, Turn};

/// Names of all pieces of work of the small run, with the number of their steps.
const WORK: [(&str, u32); 8] = [
    ("measuring (greedy)", 4),
    ("measuring (sampled)", 4),
    ("sft: demonstrations", 2),
    ("sft: measuring (greedy)", 4),
    ("sft: measuring (sampled)", 4),
    ("rl: training", 2),
    ("rl: measuring (greedy)", 4),
    ("rl: measuring (sampled)", 4),
];

/// Curve of the steps of the stage `rl`, from the metrics: one block for each step, by eighths.
fn curve(desk: &Desk) -> String {
    let metrics = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines = metrics.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let shares = lines.filter_map(|line| line["values"]["success"].as_f64());
    shares.map(|share| "▁▂▃▄▅▆▇█".chars().nth(((share * 8.0) as usize).min(7)).expect("a block")).collect()
}

#[test]
fn progress_fits_the_terminal_and_no_line_is_printed_twice() {
    for width in [40_u16, 80, 120] {
        let columns = usize::from(width);
        let desk = Desk::with_run_file(SMALL_RUN);
        let written = in_terminal(desk.command(&run_arguments(WORD_PROBLEMS, &[])), width, &[]);
        let lines = screen(&written, width);
        for (name, steps) in WORK {
            let (start, position) = (format!("{name} "), format!(" {steps}/{steps}"));
            let of_work: Vec<&String> = lines.iter().filter(|line| line.starts_with(&start)).collect();
            let [line] = of_work[..] else { panic!("{name} has {} lines at {width}: {lines:#?}", of_work.len()) };
            assert!(line.contains(&position) && line.chars().count() < columns, "{width}: {line}");
            if name == "rl: training" && width >= 80 {
                let curve = curve(&desk);
                assert!(line.contains(&format!(" % {curve}")), "{width}: {curve} in {line}");
            }
        }
        let mut seen = HashSet::new();
        for line in lines.iter().filter(|line| !line.is_empty()) {
            assert!(seen.insert(line), "printed twice at {width}: {line}\n{lines:#?}");
        }
        for start in
            ["model: tiny, ", "stage sft: success ", "stage rl: success ", "success at the end: ", "next: host eval "]
        {
            assert!(lines.iter().any(|line| line.starts_with(start)), "{start} is missing at {width}: {lines:#?}");
        }
        assert!(written.contains("\u{1b}[36mnext:\u{1b}[0m host show out"), "{written:?}");
    }
}

/// Seats have their colours, and `NO_COLOR` takes all colours away.
#[test]
fn seats_and_marks_are_coloured_unless_no_color_is_set() {
    let desk = Desk::with_run_file(SMALL_GAME);
    let short = ["--set", "stages.sft.steps=2", "--set", "stages.rl.steps=1"];
    let arguments = run_arguments(TIC_TAC_TOE, &short);
    let coloured = in_terminal(desk.command(&arguments), 120, &[]);
    assert!(coloured.contains("\u{1b}[36mnext:\u{1b}[0m host show out"), "{coloured:?}");
    let speaks = |record: &EpisodeRecord, wanted: u32| {
        record.turns.iter().any(|turn| matches!(turn, Turn::Message { seat, .. } if *seat == wanted))
    };
    let records = desk.episodes();
    let both = records.iter().find(|record| speaks(record, 0) && speaks(record, 1)).expect("a game of both seats");
    let id = both.id.to_string();
    let show = ["show", "out", "--episode", id.as_str()];
    let shown = in_terminal(desk.command(&show), 120, &[]);
    for label in ["[36m               seat 0", "[36menvironment to seat 0", "[35m               seat 1"] {
        assert!(shown.contains(&format!("\u{1b}{label}\u{1b}[0m  ")), "{label}: {shown:?}");
    }

    let uncoloured = |arguments: &[&str]| {
        let mut command = desk.command(arguments);
        command.env("NO_COLOR", "1");
        let written = in_terminal(command, 120, &[]);
        // The progress line is still drawn over; sequences of colours end with `m`.
        let mut ends = written.split('\u{1b}').skip(1).filter_map(|rest| rest.chars().find(char::is_ascii_alphabetic));
        assert!(ends.all(|end| end != 'm'), "{written:?}");
        written
    };
    assert!(uncoloured(&show).contains("               seat 0  "));
    let plain = [&["run", "run.toml", "--plugins", TIC_TAC_TOE, "--out", "plain"], &short[..]].concat();
    assert!(uncoloured(&plain).contains("next: host show plain"));
}
