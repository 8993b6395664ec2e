//! The index of a plugin in a registry: an accepted index is written and read again without a difference.
#![no_main]

use std::sync::LazyLock;

use gymkhana_registry::{PluginName, read_catalogue, read_index, write_index};
use libfuzzer_sys::fuzz_target;

static NAME: LazyLock<PluginName> = LazyLock::new(|| PluginName::new("gymkhana", "calculator").expect("a valid name"));

fuzz_target!(|text: &str| {
    let _ = read_catalogue(text);
    if let Ok(rows) = read_index(&NAME, text) {
        let written = write_index(&rows).expect("accepted rows are written");
        let again = read_index(&NAME, &written).expect("a written index is accepted");
        assert_eq!(write_index(&again).expect("accepted rows are written"), written);
    }
});
