//! Rotary positions: how fast each pair of a head's numbers turns, plainly or slowed down for longer contexts.
//!
//! The words are those of `config.json`: `rope_scaling` with `rope_theta` beside it, as older files have it, or
//! `rope_parameters` with everything inside. Numbers are computed in float32 in transformers' order of operations, since
//! at far positions the last bit of a frequency can be seen in the logits.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tch::{Device, Kind, TchError, Tensor};

/// The frequencies' base when a file names none.
const DEFAULT_THETA: f64 = 10_000.0;
/// The section of older files, which newer programs still read first.
const OLD_SECTION: &str = "rope_scaling";
const SECTION: &str = "rope_parameters";

/// How a model's positions turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// The base of the frequencies.
    pub theta: f64,
    /// How they are slowed down.
    pub scaling: Scaling,
}

/// How frequencies are slowed down for contexts beyond those of a model's first training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// Not at all. Also `dynamic`, which begins beyond `max_position_embeddings`, where this trainer has no positions.
    None,
    /// All alike.
    Linear {
        /// How many times slower.
        factor: f64,
    },
    /// Slow ones by the factor, fast ones not, those between by a straight line over their places (YaRN).
    Yarn {
        /// How many times slower.
        factor: f64,
        /// Positions of the first training.
        original: f64,
        /// Cosines and sines are multiplied by this.
        attention: f64,
        /// Frequencies that turn at least so often within `original` stay.
        beta_fast: f64,
        /// Those that turn at most so often are slowed down in full.
        beta_slow: f64,
        /// Whether the borders between them are rounded to whole places.
        truncate: bool,
    },
    /// Slow ones by the factor, fast ones not, those between by their wavelengths (Llama 3.1).
    Llama3 {
        /// How many times slower.
        factor: f64,
        /// Positions of the first training.
        original: f64,
        /// `original` over the wavelength from which on the factor counts in full.
        low: f64,
        /// `original` over the wavelength up to which nothing changes.
        high: f64,
    },
}

/// All keys that any of the kinds has; another one would be a computation that is not known here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    rope_type: Option<String>,
    #[serde(rename = "type")]
    old_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
    factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    attention_factor: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
    truncate: Option<bool>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
}

/// The section that counts, with its name.
fn section(source: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    [OLD_SECTION, SECTION]
        .into_iter()
        .filter_map(|name| Some((name, source.get(name)?)))
        .find(|(_, value)| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()))
}

impl Rope {
    /// Reads what a `config.json` says; `positions` is its `max_position_embeddings`.
    ///
    /// # Errors
    /// With the key and value that this trainer does not follow.
    pub fn read(source: &Map<String, Value>, positions: i64) -> Result<Self, String> {
        let (name, table) = section(source).unwrap_or((SECTION, &Value::Null));
        let table = if table.is_null() { json!({}) } else { table.clone() };
        let fields: Fields = serde_json::from_value(table).map_err(|error| format!("{name} that says: {error}"))?;
        let number = |key: &str| source.get(key).and_then(Value::as_f64);
        let theta = fields.rope_theta.or(number("rope_theta")).unwrap_or(DEFAULT_THETA);
        if !(theta > 1.0 && theta.is_finite()) {
            return Err(format!("rope_theta = {theta}"));
        }
        let partial = fields.partial_rotary_factor.or(number("partial_rotary_factor")).unwrap_or(1.0);
        if partial != 1.0 {
            return Err(format!("partial_rotary_factor = {partial}"));
        }
        let original = number("original_max_position_embeddings");
        let original = original.or(fields.original_max_position_embeddings).unwrap_or(positions as f64);
        Ok(Self { theta, scaling: fields.scaling(name, positions as f64, original)? })
    }

    /// The keys of older and newer programs, each with everything: what is read again is the same.
    pub(crate) fn write(&self, source: &mut Map<String, Value>) {
        let table = section(source).and_then(|(_, table)| table.as_object()).cloned().unwrap_or_default();
        let kind = table.get("rope_type").or_else(|| table.get("type")).cloned().unwrap_or_else(|| json!("default"));
        let mut new = Map::from_iter([("rope_theta".to_owned(), json!(self.theta)), ("rope_type".to_owned(), kind)]);
        new.extend(table.into_iter().filter(|(key, _)| !["rope_theta", "rope_type", "type"].contains(&key.as_str())));
        if new["rope_type"] != "default" {
            let mut old = new.clone();
            old.remove("rope_theta");
            source.insert(OLD_SECTION.into(), Value::Object(old));
        }
        source.insert("rope_theta".into(), json!(self.theta));
        source.insert(SECTION.into(), Value::Object(new));
    }

    /// The most positions of a model whose file says `positions`: YaRN's files name those of the first training.
    pub(crate) fn positions(&self, positions: i64) -> i64 {
        match self.scaling {
            Scaling::Yarn { factor, original, .. } => positions.max((factor * original) as i64),
            _ => positions,
        }
    }

    /// What cosines and sines are multiplied by.
    #[must_use]
    pub fn attention(&self) -> f64 {
        match self.scaling {
            Scaling::Yarn { attention, .. } => attention,
            _ => 1.0,
        }
    }

    /// The angle, in radians, by which each pair of a head turns from one position to the next.
    ///
    /// # Errors
    /// If libtorch cannot allocate a handful of numbers.
    pub fn frequencies(&self, head_size: i64) -> Result<Vec<f32>, TchError> {
        let half = head_size / 2;
        let exponents = Tensor::f_arange(half, (Kind::Float, Device::Cpu))?.f_mul_scalar(2.0)?;
        let exponents = exponents.f_div_scalar(head_size as f64)?;
        let powers = Vec::<f32>::try_from(Tensor::f_from_slice(&[self.theta as f32])?.f_pow(&exponents)?)?;
        let scaled = |(place, power): (usize, &f32)| {
            let plain = 1.0 / power;
            match self.scaling {
                Scaling::None => plain,
                Scaling::Linear { factor } => plain / factor as f32,
                Scaling::Llama3 { factor, original, low, high } => {
                    llama3(plain, [factor, original, low, high].map(|number| number as f32))
                }
                Scaling::Yarn { factor, .. } => {
                    let kept = 1.0 - self.ramp(place, head_size as f64);
                    (1.0 / (factor as f32 * power)) * (1.0 - kept) + plain * kept
                }
            }
        };
        Ok(powers.iter().enumerate().map(scaled).collect())
    }

    /// How much of the factor counts at a place: 0 for fast pairs, 1 for slow ones.
    fn ramp(&self, place: usize, size: f64) -> f32 {
        let Scaling::Yarn { original, beta_fast, beta_slow, truncate, .. } = self.scaling else { return 0.0 };
        let border = |turns: f64| size * (original / (turns * std::f64::consts::TAU)).ln() / (2.0 * self.theta.ln());
        let (mut low, mut high) = (border(beta_fast), border(beta_slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(size - 1.0));
        if low == high {
            high += 0.001;
        }
        ((place as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0)
    }
}

fn llama3(plain: f32, [factor, original, low, high]: [f32; 4]) -> f32 {
    let wavelength = std::f32::consts::TAU / plain;
    if wavelength < original / high {
        return plain;
    }
    if wavelength > original / low {
        return plain / factor;
    }
    let kept = (original / wavelength - low) / (high - low);
    (1.0 - kept) * plain / factor + kept * plain
}

impl Fields {
    fn scaling(&self, section: &str, positions: f64, original: f64) -> Result<Scaling, String> {
        let kind = self.rope_type.as_deref().or(self.old_type.as_deref()).unwrap_or("default");
        let wanted = |key: &str, value: Option<f64>| match value {
            Some(number) if number > 0.0 && number.is_finite() => Ok(number),
            Some(number) => Err(format!("{section}.{key} = {number}")),
            None => Err(format!("{section}.rope_type = {kind:?} and no {key}")),
        };
        let original = wanted("original_max_position_embeddings", Some(original))?;
        match kind {
            "default" | "dynamic" => Ok(Scaling::None),
            "linear" => Ok(Scaling::Linear { factor: wanted("factor", self.factor)? }),
            "yarn" => {
                let factor = wanted("factor", self.factor.or(Some(positions / original)))?;
                Ok(Scaling::Yarn {
                    factor,
                    original,
                    attention: wanted("attention_factor", Some(self.attention(factor)))?,
                    beta_fast: wanted("beta_fast", Some(self.beta_fast.unwrap_or(32.0)))?,
                    beta_slow: wanted("beta_slow", Some(self.beta_slow.unwrap_or(1.0)))?,
                    truncate: self.truncate.unwrap_or(true),
                })
            }
            "llama3" => {
                let low = wanted("low_freq_factor", self.low_freq_factor)?;
                let high = wanted("high_freq_factor", self.high_freq_factor)?;
                if high <= low {
                    return Err(format!("{section}.high_freq_factor = {high}, which is not above low_freq_factor"));
                }
                Ok(Scaling::Llama3 { factor: wanted("factor", self.factor)?, original, low, high })
            }
            other => Err(format!("{section}.rope_type = {other:?}")),
        }
    }

    /// YaRN's factor of attention, where the file does not say it.
    fn attention(&self, factor: f64) -> f64 {
        let grown = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
        let said = |scale: Option<f64>| scale.filter(|scale| *scale != 0.0);
        match (self.attention_factor, said(self.mscale), said(self.mscale_all_dim)) {
            (Some(attention), _, _) => attention,
            (None, Some(one), Some(all)) => grown(one) / grown(all),
            _ => grown(1.0),
        }
    }
}
