//! The tensors of a file: names of transformers, shapes, and values in float32.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek};

use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, TensorInfo};

use crate::architecture::{Architecture, GLOBAL_TENSORS, LAYER_TENSORS, ROPE_FACTORS};
use crate::error::Problem;
use crate::metadata::ModelKeys;

/// Names and shapes of a file, and the factors of rotary positions.
pub struct Tensors<'a> {
    infos: &'a HashMap<String, TensorInfo>,
    rope_factors: Option<Vec<f32>>,
}

/// A tensor under its name in transformers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedTensor {
    /// Name in the file.
    pub source: String,
    /// Sizes, the outermost first.
    pub shape: Vec<usize>,
    /// Heads whose rows are interleaved.
    pub interleaved_heads: Option<u32>,
}

impl<'a> Tensors<'a> {
    /// Tensors of a file whose layout was checked.
    pub fn new(content: &'a Content, reader: &mut (impl Read + Seek)) -> Result<Self, Problem> {
        let rope_factors =
            content.tensor_infos.get(ROPE_FACTORS).map(|_| values(content, reader, ROPE_FACTORS)).transpose();
        let rope_factors = rope_factors.map_err(|error| Problem::damaged(error.to_string()))?;
        Ok(Self { infos: &content.tensor_infos, rope_factors })
    }

    pub fn contains(&self, name: &str) -> bool {
        self.infos.contains_key(name)
    }

    /// Outermost size of a tensor.
    pub fn rows(&self, name: &str) -> Result<u64, Problem> {
        let info = self.infos.get(name).ok_or_else(|| Problem::damaged(format!("tensor `{name}` is missing")))?;
        Ok(info.shape.dims().first().copied().unwrap_or_default() as u64)
    }

    pub fn rope_factors(&self) -> Option<&[f32]> {
        self.rope_factors.as_deref()
    }

    /// All tensors under their names in transformers.
    ///
    /// # Errors
    /// If a name is unknown, or the rows of interleaved heads do not have the widths of the keys.
    pub fn mapped(
        &self,
        architecture: &Architecture,
        keys: &ModelKeys,
    ) -> Result<BTreeMap<String, MappedTensor>, Problem> {
        let mut mapped = BTreeMap::new();
        for (source, info) in self.infos.iter().filter(|(name, _)| *name != ROPE_FACTORS) {
            let name = name(source).ok_or_else(|| {
                Problem::unsupported(
                    format!(
                        "tensor `{}` is not one of the architecture `{}`",
                        source.escape_debug(),
                        architecture.name
                    ),
                    "use a model whose architecture has no other parts",
                )
            })?;
            let shape = info.shape.dims().to_vec();
            let interleaved_heads = keys.heads_of(&name).filter(|_| architecture.interleaves_heads);
            if let Some(heads) = interleaved_heads
                && shape.first().copied().map(|rows| rows as u64) != Some(u64::from(heads) * u64::from(keys.head_dim))
            {
                return Err(Problem::damaged(format!(
                    "tensor `{source}` has the shape {shape:?}, which is not {heads} heads of width {}",
                    keys.head_dim
                )));
            }
            mapped.insert(name, MappedTensor { source: source.clone(), shape, interleaved_heads });
        }
        Ok(mapped)
    }
}

impl ModelKeys {
    /// Heads in the rows of a tensor of queries or keys.
    fn heads_of(&self, name: &str) -> Option<u32> {
        let part = |name: &str, part: &str| name.contains(part);
        if part(name, ".q_proj.") {
            Some(self.heads)
        } else if part(name, ".k_proj.") {
            Some(self.key_heads)
        } else {
            None
        }
    }
}

/// Name in transformers.
fn name(source: &str) -> Option<String> {
    if let Some((_, name)) = GLOBAL_TENSORS.iter().find(|(own, _)| *own == source) {
        return Some((*name).to_owned());
    }
    let (layer, part) = source.strip_prefix("blk.")?.split_once('.')?;
    let (part, ending) = part.rsplit_once('.')?;
    let layer: u32 = layer.parse().ok()?;
    let (_, part) = LAYER_TENSORS.iter().find(|(own, _)| *own == part)?;
    ["weight", "bias"].contains(&ending).then(|| format!("model.layers.{layer}.{part}.{ending}"))
}

/// Values of a tensor, dequantised to float32.
pub fn values(content: &Content, reader: &mut (impl Read + Seek), name: &str) -> candle_core::Result<Vec<f32>> {
    content.tensor(reader, name, &Device::Cpu)?.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1()
}

/// Rows in the order of transformers: the first halves of all pairs of a head before the second ones.
pub fn restored(values: &[f32], shape: &[usize], heads: u32) -> Vec<f32> {
    let rows = shape.first().copied().unwrap_or_default();
    let (columns, head_dim) = (values.len() / rows.max(1), rows / heads as usize);
    let mut restored = Vec::with_capacity(values.len());
    for row in 0..rows {
        let (head, place) = (row / head_dim, row % head_dim);
        let (half, pair) = (place / (head_dim / 2), place % (head_dim / 2));
        let from = (head * head_dim + 2 * pair + half) * columns;
        restored.extend_from_slice(&values[from..from + columns]);
    }
    restored
}
