//! Conversations with hostile text: rendering never fails on a text and never turns one into a control token.
#![no_main]

use std::sync::LazyLock;

use gymkhana_chat::{ChatError, ChatFiles, ChatFormat, Message, Rendered, Role};
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

fuzz_target!(|text: &str| {
    assert!(!matches!(FORMAT.encode_plain(text), Err(ChatError::Forged(_))), "a text became a control token");
    // Texts between NUL characters are messages of user and assistant in turn.
    let roles = [Role::User, Role::Assistant].into_iter().cycle();
    let messages: Vec<Message> =
        roles.zip(text.split('\0').take(6)).map(|(role, text)| Message::of_text(role, text)).collect();
    let rendered = FORMAT.extend(&Rendered::default(), &messages, &[], false);
    assert!(!matches!(rendered, Err(ChatError::Forged(_))), "a message became a control token");
});
