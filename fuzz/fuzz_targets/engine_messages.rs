//! Messages of an engine in another process: what is accepted is written and read again without a difference.
#![no_main]

use gymkhana_engine::message::{AnswerHead, read_body, write_frame};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let _ = read_body::<AnswerHead>(body);
    if let Ok((head, tensors)) = read_body::<Value>(body) {
        let frame = write_frame(&head, &tensors).expect("accepted messages are written");
        let (again, same) = read_body::<Value>(&frame[8..]).expect("a written message is accepted");
        // Numbers that are not equal to themselves have equal bytes.
        assert_eq!(write_frame(&again, &same).expect("accepted messages are written"), frame);
    }
});
