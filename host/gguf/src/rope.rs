//! Rotary positions: `rope_theta` and `rope_scaling` of `config.json` from keys and from a tensor of factors.

use serde_json::{Map, Value, json};

use crate::architecture::ROPE_FACTORS;
use crate::error::Problem;
use crate::metadata::Metadata;

/// Keys of an architecture that are read here, without its name.
pub const KEYS: [&str; 4] =
    ["rope.freq_base", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length"];

/// Base of models whose file names none, as in llama.cpp.
const DEFAULT_BASE: f64 = 10_000.0;
/// Settings of Llama 3.1 to 3.3, of which only `factor` differs between the models.
const LOW: f64 = 1.0;
const HIGH: f64 = 4.0;
const ORIGINAL_CONTEXT: f64 = 8192.0;
/// Relative difference between factors that are equal before they are rounded to float32.
const TOLERANCE: f64 = 1e-4;

/// Keys of `config.json`. `factors` are the numbers of the tensor [`ROPE_FACTORS`], if there is one.
pub fn read(
    metadata: &Metadata<'_>,
    key: &impl Fn(&str) -> String,
    head_dim: u32,
    factors: Option<&[f32]>,
) -> Result<Map<String, Value>, Problem> {
    let base = metadata.float(&key("rope.freq_base"))?.unwrap_or(DEFAULT_BASE);
    let scaled = scaled(metadata, key)?;
    let factored = factored(factors, base, head_dim)?;
    let scaling = match (scaled, factored) {
        (Some(_), Some(_)) => {
            return Err(Problem::unsupported(
                format!("it has both `{}` and the tensor `{ROPE_FACTORS}`", key("rope.scaling.type")),
                "use a model with one kind of scaled positions",
            ));
        }
        (scaled, factored) => scaled.or(factored),
    };
    let mut config = Map::from_iter([("rope_theta".to_owned(), json!(base))]);
    config.extend(scaling.map(|scaling| ("rope_scaling".to_owned(), scaling)));
    Ok(config)
}

/// `rope_scaling` by the keys.
fn scaled(metadata: &Metadata<'_>, key: &impl Fn(&str) -> String) -> Result<Option<Value>, Problem> {
    let (kind, factor) = (key("rope.scaling.type"), key("rope.scaling.factor"));
    let number = || {
        metadata
            .float(&factor)?
            .ok_or_else(|| Problem::damaged(format!("`{kind}` is there, but `{factor}` is missing")))
    };
    match metadata.text(&kind)? {
        None | Some("none") => Ok(None),
        Some("linear") => Ok(Some(json!({ "rope_type": "linear", "factor": number()? }))),
        Some("yarn") => {
            let original = metadata.required_number(&key("rope.scaling.original_context_length"))?;
            let factor = number()?;
            Ok(Some(json!({ "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original })))
        }
        Some(other) => Err(Problem::unsupported(
            format!("`{kind}` is `{}`", other.escape_debug()),
            "use a model with linear, yarn or llama3 positions",
        )),
    }
}

/// `rope_scaling` by the factors: that of Llama 3, if its formula gives them.
fn factored(factors: Option<&[f32]>, base: f64, head_dim: u32) -> Result<Option<Value>, Problem> {
    let Some(factors) = factors else { return Ok(None) };
    let factor = factors.iter().copied().fold(1.0, f32::max);
    let is_near = |(pair, found): (usize, &f32)| {
        let expected = llama3(base.powf(-2.0 * pair as f64 / f64::from(head_dim)), f64::from(factor));
        (f64::from(*found) - expected).abs() <= TOLERANCE * expected
    };
    if factors.len() * 2 != head_dim as usize || !factors.iter().enumerate().all(is_near) {
        return Err(Problem::unsupported(
            format!("the tensor `{ROPE_FACTORS}` has other factors than the positions of Llama 3"),
            "use a model with default, linear, yarn or llama3 positions",
        ));
    }
    Ok(Some(json!({
        "rope_type": "llama3", "factor": factor, "low_freq_factor": LOW, "high_freq_factor": HIGH,
        "original_max_position_embeddings": ORIGINAL_CONTEXT as u32,
    })))
}

/// Divisor of a frequency in radians per position.
fn llama3(frequency: f64, factor: f64) -> f64 {
    let turns = ORIGINAL_CONTEXT * frequency / std::f64::consts::TAU;
    if turns > HIGH {
        return 1.0;
    }
    if turns < LOW {
        return factor;
    }
    let smooth = (turns - LOW) / (HIGH - LOW);
    1.0 / ((1.0 - smooth) / factor + smooth)
}
