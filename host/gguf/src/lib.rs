//! GGUF files of llama.cpp as models of transformers: configuration, tokenizer and float32 weights.
//!
//! `candle-core` reads the file and dequantises tensors. It trusts counts and lengths in the file, so `layout` checks the
//! whole header before. `architecture` is the table of supported model families.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod architecture;
mod config;
mod error;
mod keys;
mod layout;
mod metadata;
mod model;
mod rope;
mod tensors;
mod tokenizer;

pub use error::GgufError;
pub use model::GgufModel;
