//! Tool calls in a model's reply, in every format.
#![no_main]

use gymkhana_chat::ToolFormat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in ToolFormat::ALL {
        let reply = format.parse(text, &[]);
        assert!(reply.message.len() <= text.len() + 1, "the message is a part of the reply");
    }
});
