//! The manifest of a plugin: the bytes are the section's JSON, framed as a plugin frames it.
#![no_main]

use gymkhana_registry::{MANIFEST_MAGIC, parse_manifest_section};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = parse_manifest_section(data);
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes();
    let framed = [&MANIFEST_MAGIC[..], &length, data].concat();
    let _ = parse_manifest_section(&framed);
});
