//! A filter expression: every text is parsed or refused, with a column inside the text, and its text is parsed again to
//! the same filter.
#![no_main]

use gymkhana_filter::{Episode, Filter};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Seed, TaskRef};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Filter::parse(text) {
        Ok(filter) => {
            let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 };
            let task = TaskRef { split: "train".to_owned(), index: 0 };
            let record = EpisodeRecord::new(id, task, Seed(0), Ending::Terminated);
            let _ = filter.matches(Episode { record: &record, stage: "rl" });
            assert_eq!(Filter::parse(filter.text()).as_ref(), Ok(&filter));
        }
        Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column), "{error}"),
    }
});
