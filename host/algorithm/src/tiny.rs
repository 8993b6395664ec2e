//! Size of the tiny byte-level model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingError;
use crate::error::require;

/// Size of a byte-level model with random initial weights. The default has 1.35 million parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TinyModel {
    /// Layers.
    #[schemars(range(min = 1, max = 64))]
    pub layers: u32,
    /// Width of the residual stream.
    #[schemars(range(min = 2, max = 4096))]
    pub width: u32,
    /// Query heads.
    #[schemars(range(min = 1), extend("x-range" = "a divisor of `width` that leaves heads of an even width"))]
    pub heads: u32,
    /// Key and value heads.
    #[schemars(range(min = 1), extend("x-range" = "a divisor of `heads`"))]
    pub kv_heads: u32,
    /// Width of the feed-forward layers.
    #[schemars(range(min = 1, max = 32_768))]
    pub mlp: u32,
    /// Context length in tokens.
    #[schemars(range(min = 2, max = 65_536))]
    pub context: u32,
}

impl Default for TinyModel {
    fn default() -> Self {
        Self { layers: 4, width: 160, heads: 5, kv_heads: 5, mlp: 464, context: 512 }
    }
}

impl TinyModel {
    /// Refuses sizes out of range.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), SettingError> {
        let Self { layers, width, heads, kv_heads, mlp, context } = *self;
        require((1..=64).contains(&layers), "layers", layers, "from 1 to 64")?;
        require((2..=4096).contains(&width), "width", width, "from 2 to 4096")?;
        let even = heads >= 1 && width % heads == 0 && (width / heads) % 2 == 0;
        require(even, "heads", heads, "a divisor of `width` such that `width / heads` is even")?;
        require(kv_heads >= 1 && heads % kv_heads == 0, "kv_heads", kv_heads, "a divisor of `heads`")?;
        require((1..=32_768).contains(&mlp), "mlp", mlp, "from 1 to 32768")?;
        require((2..=65_536).contains(&context), "context", context, "from 2 to 65536")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spoil = fn(&mut TinyModel);

    #[test]
    fn wrong_sizes_are_refused_by_name() {
        let wrong: [(&str, Spoil); 5] = [
            ("layers", |tiny| tiny.layers = 0),
            ("heads", |tiny| tiny.heads = 3),
            ("heads", |tiny| (tiny.width, tiny.heads) = (9, 3)),
            ("kv_heads", |tiny| tiny.kv_heads = 2),
            ("context", |tiny| tiny.context = 1),
        ];
        for (key, spoil) in wrong {
            let mut tiny = TinyModel::default();
            spoil(&mut tiny);
            assert!(tiny.check().expect_err(key).to_string().contains(key));
        }
    }
}
