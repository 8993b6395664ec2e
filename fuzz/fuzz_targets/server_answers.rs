//! Answers of model servers: what is accepted is a reply that the run's model can have sampled.
#![no_main]

use std::sync::LazyLock;

use gymkhana_chat::{ChatFiles, ChatFormat};
use gymkhana_policy_server::fuzzing::read_answer;
use libfuzzer_sys::fuzz_target;

/// The chat format of the golden files.
static FORMAT: LazyLock<ChatFormat> = LazyLock::new(|| {
    let files = ChatFiles {
        tokenizer: include_str!("../../tests/golden/chat/tokenizer.json").to_owned(),
        config: include_str!("../../tests/golden/chat/tokenizer_config.json").to_owned(),
        template: Some(include_str!("../../tests/golden/chat/chat_template.jinja").to_owned()),
        ..ChatFiles::default()
    };
    ChatFormat::new(&files).expect("a valid chat format")
});

fuzz_target!(|text: &[u8]| {
    if let Ok(answer) = serde_json::from_slice(text) {
        read_answer(&answer, &FORMAT);
    }
});
