//! The position of a run in `state.json`: an accepted one is written and read again without a difference.
#![no_main]

use std::sync::LazyLock;

use gymkhana_config::{RunFile, Stage};
use gymkhana_run::fuzzing::read_state;
use libfuzzer_sys::fuzz_target;

/// Stages of an example of a run file.
static STAGES: LazyLock<Vec<Stage>> = LazyLock::new(|| {
    let text = include_str!("../../examples/runs/word-problems.toml");
    RunFile::parse(text, "run.toml", &[]).expect("a run file").stages
});

fuzz_target!(|text: &[u8]| {
    if let Some(written) = read_state(text, &STAGES) {
        let again = read_state(written.as_bytes(), &STAGES).expect("a written position is accepted");
        assert_eq!(again, written);
    }
});
