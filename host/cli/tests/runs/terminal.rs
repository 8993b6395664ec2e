//! A run in a terminal: lines that fit, and each line once.

use std::collections::HashSet;

use crate::common::terminal::{in_terminal, screen};
use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, run_arguments};

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

#[test]
fn progress_fits_the_terminal_and_no_line_is_printed_twice() {
    for width in [40_u16, 80, 120] {
        let columns = usize::from(width);
        let desk = Desk::with_run_file(SMALL_RUN);
        let written = in_terminal(desk.command(&run_arguments(WORD_PROBLEMS, &[])), width, &[]);
        let (lines, longest) = screen(&written);
        assert!(longest < columns, "a progress line of {longest} in {width} columns: {written:?}");
        for (name, steps) in WORK {
            let (start, position) = (format!("{name} "), format!(" {steps}/{steps}"));
            let of_work: Vec<&String> = lines.iter().filter(|line| line.starts_with(&start)).collect();
            let [line] = of_work[..] else { panic!("{name} has {} lines at {width}: {lines:#?}", of_work.len()) };
            assert!(line.contains(&position) && line.chars().count() < columns, "{width}: {line}");
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
