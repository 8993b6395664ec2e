//! Rows of a file to train on: conversations and preferences.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use gymkhana_data::{ChatConversation, ChatMessage, Preference, Skips, conversations, preferences};
use libfuzzer_sys::fuzz_target;

/// A file in the folder of temporary files, which `cargo xtask fuzz` empties.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| tempfile::tempdir().expect("a folder").keep().join("rows.jsonl"));

/// Maximum number of bad rows that are skipped.
const MAY_SKIP: u64 = 1000;

fuzz_target!(|data: &[u8]| {
    fs::write(&*FILE, data).expect("written");
    if let Ok(found) = conversations(&FILE, Some("weight"), &mut Skips::at_most(MAY_SKIP)) {
        found.rows.iter().for_each(|(_, conversation)| check(conversation));
    }
    if let Ok(found) = preferences(&FILE, &mut Skips::at_most(MAY_SKIP)) {
        for (_, preference) in &found.rows {
            match preference {
                Preference::Pair { chosen, rejected } => {
                    check(chosen);
                    check(rejected);
                    assert_ne!(chosen, rejected);
                }
                Preference::Labelled { conversation, .. } => check(conversation),
            }
        }
    }
});

/// A conversation has a reply after those of its prompt.
fn check(conversation: &ChatConversation) {
    let is_reply = |message: &&ChatMessage| matches!(message, ChatMessage::Assistant { .. });
    assert!(conversation.messages.iter().filter(is_reply).count() > conversation.prompt_replies.unwrap_or(0));
    assert!(conversation.weight >= 0.0 && conversation.weight.is_finite());
}
