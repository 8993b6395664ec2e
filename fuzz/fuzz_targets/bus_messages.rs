//! Messages on the bus between a trainer or server and its workers: what is accepted is within limits, and signed.
#![no_main]

use gymkhana_workers::fuzzing::{FORMS, read_message};
use libfuzzer_sys::fuzz_target;

// The first byte selects the form of the message.
fuzz_target!(|data: &[u8]| {
    let Some((form, message)) = data.split_first() else { return };
    read_message(form % FORMS, message);
});
