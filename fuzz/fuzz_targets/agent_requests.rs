//! Requests of agent programs, in each protocol: the first byte chooses the protocol, the others are the body.
#![no_main]

use gymkhana_gateway::dialect::Dialect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((first, body)) = input.split_first() else { return };
    let dialect = match first % 3 {
        0 => Dialect::ChatCompletions,
        1 => Dialect::Responses,
        _ => Dialect::Messages,
    };
    match dialect.parse(body) {
        Ok(request) => assert!(!request.messages.is_empty()),
        Err(error) => {
            assert_eq!(error.status(), 400);
            let _ = dialect.error(&error).to_string();
        }
    }
    let _ = dialect.parse_count(body);
});
