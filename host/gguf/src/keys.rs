//! What the keys of a file say about its model.

use serde_json::{Map, Value};

/// Sizes and settings of a model.
pub struct ModelKeys {
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values.
    pub key_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Rows of the embedding.
    pub vocabulary: u64,
    /// `config.json` without ids of tokens.
    pub config: Map<String, Value>,
}
