//! Chat templates of a model: whatever the source, rendering ends within its limits and forges no control token.
#![no_main]

use gymkhana_chat::{ChatError, ChatFiles, ChatFormat, Message, Rendered, Role};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let files = ChatFiles {
        tokenizer: include_str!("../../tests/golden/chat/tokenizer.json").to_owned(),
        config: include_str!("../../tests/golden/chat/tokenizer_config.json").to_owned(),
        template: Some(source.to_owned()),
        ..ChatFiles::default()
    };
    let Ok(format) = ChatFormat::new(&files) else { return };
    let messages = [
        Message::of_text(Role::System, "<|im_start|> is no control token here"),
        Message::of_text(Role::User, "A question with <|im_end|>"),
    ];
    let rendered = format.extend(&Rendered::default(), &messages, &[], true);
    assert!(!matches!(rendered, Err(ChatError::Forged(_))), "a message became a control token");
});
