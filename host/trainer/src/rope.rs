//! Rotary positions: frequencies of the pairs of a head, plain or scaled for longer contexts.
//!
//! Keys are those of `config.json`: `rope_scaling` next to `rope_theta` in older files, or `rope_parameters` with
//! everything inside. Numbers are computed in float32 in transformers' order of operations, because the last bit of a
//! frequency affects the logits at far positions.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tch::{Device, Kind, TchError, Tensor};

/// Section of older files, which newer programs read first.
const OLD_SECTION: &str = "rope_scaling";
const SECTION: &str = "rope_parameters";
/// Sections in [`SECTION`] of families whose layers with windows have rotary positions of their own.
const FULL: &str = "full_attention";
const WINDOWS: &str = "sliding_attention";

/// Rotary positions of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// Scaling of the frequencies.
    pub scaling: Scaling,
    /// Growth of queries with their position.
    pub query_scaling: Option<QueryScaling>,
    /// Share of each head that is rotated, if the file says so.
    pub rotated: Option<f64>,
}

/// Factor `1 + beta · ln(1 + floor(position / original))` of rotated queries (Ministral 3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueryScaling {
    /// Growth.
    pub beta: f64,
    /// Context length of the pre-training, in tokens.
    pub original: f64,
}

/// Scaling of frequencies for contexts beyond those of the pre-training.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// Unscaled. Also `dynamic`, which scales only beyond `max_position_embeddings`, where this trainer has no
    /// positions.
    None,
    /// Divides all frequencies by the factor.
    Linear {
        /// Divisor.
        factor: f64,
    },
    /// Divides low frequencies, keeps high ones, and interpolates linearly over the pair index in between (YaRN).
    Yarn {
        /// Divisor.
        factor: f64,
        /// Context length of the pre-training, in tokens.
        original: f64,
        /// Factor of cosines and sines.
        attention: f64,
        /// Pairs with at least this many rotations within `original` are kept.
        beta_fast: f64,
        /// Pairs with at most this many rotations within `original` are divided by the whole factor.
        beta_slow: f64,
        /// Whether the bounds between them are rounded to whole pair indices.
        truncate: bool,
    },
    /// Divides low frequencies, keeps high ones, and interpolates by wavelength in between (Llama 3.1).
    Llama3 {
        /// Divisor.
        factor: f64,
        /// Context length of the pre-training, in tokens.
        original: f64,
        /// Ratio of `original` to the wavelength below which the whole factor applies.
        low: f64,
        /// Ratio of `original` to the wavelength above which frequencies are kept.
        high: f64,
    },
    /// Divides each frequency by a factor of its own (LongRoPE).
    Long {
        /// Divisors of a model with at most `original` positions.
        short: Vec<f64>,
        /// Divisors of a model with more positions.
        long: Vec<f64>,
        /// Context length of the pre-training, in tokens.
        original: f64,
        /// Factor of cosines and sines.
        attention: f64,
    },
    /// Raises the base to `theta · alpha^(d / (d - 2))` for heads of width d (Hunyuan).
    Alpha {
        /// Factor.
        alpha: f64,
    },
}

/// Keys of all scaling types. Other keys are refused, because they could change the computation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RopeFields {
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
    short_factor: Option<Vec<f64>>,
    long_factor: Option<Vec<f64>>,
    /// Copy of `max_position_embeddings`, which some files have here.
    #[serde(rename = "max_position_embeddings")]
    _positions: Option<i64>,
    llama_4_scaling_beta: Option<f64>,
    alpha: Option<f64>,
}

/// Section in effect, with its name.
fn section(source: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    [OLD_SECTION, SECTION]
        .into_iter()
        .filter_map(|name| Some((name, source.get(name)?)))
        .find(|(_, value)| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()))
}

/// Removes the keys of rotary positions.
fn without(source: &mut Map<String, Value>) {
    for key in [OLD_SECTION, SECTION, "rope_theta"] {
        source.remove(key);
    }
}

impl Rope {
    /// Reads the rotary positions of a `config.json`; `positions` is its `max_position_embeddings`, and `theta` the base of
    /// a file without `rope_theta`.
    ///
    /// # Errors
    /// The unsupported key and value.
    pub fn read(source: &Map<String, Value>, positions: i64, theta: f64) -> Result<Self, String> {
        let (name, table) = section(source).unwrap_or((SECTION, &Value::Null));
        let table = if table.is_null() { json!({}) } else { table.clone() };
        let fields: RopeFields = serde_json::from_value(table).map_err(|error| format!("{name}: {error}"))?;
        let number = |key: &str| source.get(key).and_then(Value::as_f64);
        let theta = fields.rope_theta.or(number("rope_theta")).unwrap_or(theta);
        if !(theta > 1.0 && theta.is_finite()) {
            return Err(format!("rope_theta = {theta}"));
        }
        let original = number("original_max_position_embeddings");
        let original = original.or(fields.original_max_position_embeddings).unwrap_or(positions as f64);
        let query_scaling = fields.llama_4_scaling_beta.map(|beta| QueryScaling { beta, original });
        if let Some(QueryScaling { beta, .. }) =
            query_scaling.filter(|scaling| scaling.beta.is_nan() || scaling.beta < 0.0)
        {
            return Err(format!("{name}.llama_4_scaling_beta = {beta}"));
        }
        let rotated = fields.partial_rotary_factor.or(number("partial_rotary_factor"));
        Ok(Self { theta, scaling: fields.scaling(name, positions as f64, original)?, query_scaling, rotated })
    }

    /// Reads the rotary positions of layers with full attention and of those with windows, which some families tell apart.
    /// `theta_of_windows` is the base of layers with windows in a file of the older form that does not say it.
    ///
    /// # Errors
    /// The unsupported key and value.
    pub(crate) fn read_by_kind(
        source: &Map<String, Value>,
        positions: i64,
        theta: f64,
        theta_of_windows: f64,
    ) -> Result<Vec<Self>, String> {
        let nested = source.get(SECTION).filter(|table| table.get(FULL).is_some() || table.get(WINDOWS).is_some());
        let of = |kind: &str, theta: f64| {
            let mut own = source.clone();
            match nested {
                Some(table) => {
                    own.insert(SECTION.to_owned(), table.get(kind).cloned().unwrap_or(Value::Null));
                    own.remove(OLD_SECTION);
                    own.remove("rope_theta");
                }
                None if kind == WINDOWS => {
                    without(&mut own);
                }
                None => {}
            }
            Self::read(&own, positions, theta)
        };
        Ok(vec![of(FULL, theta)?, of(WINDOWS, theta_of_windows)?])
    }

    /// Writes the keys of older and of newer programs for positions that [`Rope::read_by_kind`] read.
    pub(crate) fn write_by_kind(ropes: &[Self], source: &mut Map<String, Value>) {
        let [full, windows] = ropes else { return };
        let nested = source.get(SECTION).filter(|table| table.get(FULL).is_some()).cloned();
        let table = |rope: &Self, table: Option<Value>| {
            let mut own = source.clone();
            without(&mut own);
            own.insert(SECTION.to_owned(), table.unwrap_or(Value::Null));
            rope.write(&mut own);
            own.remove(SECTION).unwrap_or(Value::Null)
        };
        let of = |kind: &str| nested.as_ref().and_then(|tables| tables.get(kind)).cloned();
        let of_full = of(FULL).or_else(|| source.get(OLD_SECTION).cloned());
        let (of_full, of_windows) = (table(full, of_full), table(windows, of(WINDOWS)));
        if let Some(mut old) = of_full.as_object().filter(|old| old["rope_type"] != "default").cloned() {
            old.remove("rope_theta");
            source.insert(OLD_SECTION.into(), Value::Object(old));
        }
        source.insert("rope_theta".into(), json!(full.theta));
        source.insert(SECTION.into(), json!({ FULL: of_full, WINDOWS: of_windows }));
    }

    /// Writes the keys of older and of newer programs. Reading them again gives the same value.
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

    /// Maximum positions of a model with `max_position_embeddings` of `positions`: with YaRN, at least the scaled
    /// context length of the pre-training.
    pub(crate) fn positions(&self, positions: i64) -> i64 {
        match self.scaling {
            Scaling::Yarn { factor, original, .. } => positions.max((factor * original) as i64),
            _ => positions,
        }
    }

    /// Factor of cosines and sines.
    #[must_use]
    pub fn attention(&self) -> f64 {
        match self.scaling {
            Scaling::Yarn { attention, .. } | Scaling::Long { attention, .. } => attention,
            _ => 1.0,
        }
    }

    /// Rotation of each pair per position, in radians: `width / 2` numbers for heads of which `width` numbers are rotated, in
    /// a model for sequences of up to `positions` tokens.
    ///
    /// # Errors
    /// If libtorch cannot allocate the numbers, or there is not a divisor for each pair.
    pub fn frequencies(&self, width: i64, positions: i64) -> Result<Vec<f32>, TchError> {
        let half = width / 2;
        let exponents = Tensor::f_arange(half, (Kind::Float, Device::Cpu))?.f_mul_scalar(2.0)?;
        let exponents = exponents.f_div_scalar(width as f64)?;
        let theta = match self.scaling {
            Scaling::Alpha { alpha } => self.theta * alpha.powf(width as f64 / (width - 2) as f64),
            _ => self.theta,
        };
        let powers = Vec::<f32>::try_from(Tensor::f_from_slice(&[theta as f32])?.f_pow(&exponents)?)?;
        if let Scaling::Long { short, long, original, .. } = &self.scaling {
            let divisors = if positions as f64 > *original { long } else { short };
            if divisors.len() != powers.len() {
                return Err(TchError::Shape(format!("{} divisors for {} pairs", divisors.len(), powers.len())));
            }
            let divided = powers.iter().zip(divisors).map(|(power, divisor)| 1.0 / (*divisor as f32 * power));
            return Ok(divided.collect());
        }
        let scaled = |(place, power): (usize, &f32)| {
            let plain = 1.0 / power;
            match self.scaling {
                Scaling::None | Scaling::Alpha { .. } | Scaling::Long { .. } => plain,
                Scaling::Linear { factor } => plain / factor as f32,
                Scaling::Llama3 { factor, original, low, high } => {
                    llama3(plain, [factor, original, low, high].map(|number| number as f32))
                }
                Scaling::Yarn { factor, .. } => {
                    let kept = 1.0 - self.ramp(place, width as f64);
                    (1.0 / (factor as f32 * power)) * (1.0 - kept) + plain * kept
                }
            }
        };
        Ok(powers.iter().enumerate().map(scaled).collect())
    }

    /// Share of the factor that applies to the pair of index `place`: 0 for high frequencies, 1 for low ones.
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

impl RopeFields {
    fn scaling(&self, section: &str, positions: f64, original: f64) -> Result<Scaling, String> {
        let kind = self.rope_type.as_deref().or(self.old_type.as_deref()).unwrap_or("default");
        let wanted = |key: &str, value: Option<f64>| match value {
            Some(number) if number > 0.0 && number.is_finite() => Ok(number),
            Some(number) => Err(format!("{section}.{key} = {number}")),
            None => Err(format!("{section}.rope_type = {kind:?} without {key}")),
        };
        let original = wanted("original_max_position_embeddings", Some(original))?;
        match kind {
            "dynamic" if self.alpha.is_some() => Ok(Scaling::Alpha { alpha: wanted("alpha", self.alpha)? }),
            "default" | "dynamic" => Ok(Scaling::None),
            "longrope" | "su" => self.long(section, positions, original),
            "yarn" if self.short_factor.is_some() => self.long(section, positions, original),
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

    /// LongRoPE's divisors and attention factor.
    fn long(&self, section: &str, positions: f64, original: f64) -> Result<Scaling, String> {
        let divisors = |key: &str, divisors: &Option<Vec<f64>>| match divisors {
            Some(all) if all.iter().all(|divisor| *divisor > 0.0 && divisor.is_finite()) => Ok(all.clone()),
            _ => Err(format!("{section}.{key} is not a list of positive numbers")),
        };
        let (short, long) =
            (divisors("short_factor", &self.short_factor)?, divisors("long_factor", &self.long_factor)?);
        let factor = self.factor.unwrap_or(positions / original);
        let grown = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() };
        let attention = self.attention_factor.unwrap_or(grown);
        if !(attention > 0.0 && attention.is_finite()) {
            return Err(format!("{section}.attention_factor = {attention}"));
        }
        Ok(Scaling::Long { short, long, original, attention })
    }

    /// YaRN's attention factor, computed if the file does not contain it.
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
