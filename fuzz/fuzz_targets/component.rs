//! Inspection of a component before it is compiled: the bytes follow the header of a component.
#![no_main]

use gymkhana_registry::{Quantity, exports, imports, read_manifest, structure};
use libfuzzer_sys::fuzz_target;

/// The header of a component in WebAssembly's binary format.
const HEADER: [u8; 8] = *b"\0asm\x0d\0\x01\0";

fuzz_target!(|data: &[u8]| {
    let component = [&HEADER[..], data].concat();
    let _ = exports(&component);
    let _ = imports(&component);
    let _ = read_manifest(&component);
    if let Ok(structure) = structure(&component) {
        let beyond = Quantity::ALL.into_iter().find(|quantity| structure.value(*quantity) > quantity.limit());
        assert_eq!(beyond, None, "an accepted component exceeds a limit");
    }
});
