//! A GGUF file: whatever is accepted has only tensors that can be read.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use gymkhana_gguf::GgufModel;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(mut model) = GgufModel::read(Cursor::new(data), Path::new("model.gguf")) else { return };
    let names: Vec<(String, usize)> =
        model.tensors().map(|(name, shape)| (name.to_owned(), shape.iter().product())).collect();
    for (name, weights) in names {
        let values = model.values(&name).expect("the header is checked");
        assert_eq!(values.len(), weights, "{name}");
    }
});
