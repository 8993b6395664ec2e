//! Tool calls in a model's reply.
#![no_main]

use gymkhana_chat::parse_reply;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let reply = parse_reply(text);
    assert!(reply.message.len() <= text.len() + 1, "the message is a part of the reply");
});
