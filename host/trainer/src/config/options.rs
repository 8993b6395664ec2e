//! Options of a decoder, read from the keys of `config.json` that its family has.

use serde_json::{Map, Value};

use super::decoder::{
    Activation, Biases, Decoder, Experts, Fused, LayerKind, MIXTRAL_EXPERTS, RotaryPairs, Scales, SoftCaps,
};
use super::family::{Bias, Family, FamilyDescription, Windows};
use super::{ConfigFields, Sizes};
use crate::rope::Rope;

/// Experts of a layer, and of all layers together.
const MAX_EXPERTS: i64 = 1024;
const MAX_ALL_EXPERTS: i64 = 100_000;

/// The keys of a file, and what its family means by them.
pub(super) struct ConfigKeys<'a> {
    pub source: &'a Map<String, Value>,
    pub description: &'a FamilyDescription,
}

impl ConfigKeys<'_> {
    /// Options of the decoder.
    ///
    /// # Errors
    /// The unsupported key and value.
    pub fn decoder(&self, fields: &ConfigFields, sizes: &Sizes) -> Result<Decoder, String> {
        let description = self.description;
        let ropes = self.ropes(sizes)?;
        let pairs = RotaryPairs { width: self.rotated(&ropes, sizes)?, interleaved: description.interleaved };
        Ok(Decoder {
            biases: Biases {
                query_key_value: self.bias(description.query_key_value_bias)?,
                output: self.bias(description.output_bias)?,
                mlp: self.bias(description.mlp_bias)?,
            },
            norms: description.norms,
            norms_add_one: description.norms_add_one,
            query_key_norm: description.query_key_norm,
            activation: self.activation()?,
            scales: self.scales(fields, sizes)?,
            caps: self.caps()?,
            pairs,
            ropes,
            layers: self.layers(fields.num_hidden_layers)?,
            experts: self.experts(fields)?,
            fused: Fused { query_key_value: description.fused[0], gate_up: description.fused[1] },
        })
    }

    fn said(&self, key: &str) -> Option<&Value> {
        self.source.get(key).filter(|value| !value.is_null())
    }

    fn reads(&self, key: &str) -> bool {
        self.description.keys.contains(&key)
    }

    fn integer(&self, key: &str) -> Result<Option<i64>, String> {
        self.said(key).map(|value| value.as_i64().ok_or_else(|| format!("{key} = {value}"))).transpose()
    }

    /// A positive number.
    fn number(&self, key: &str) -> Result<Option<f64>, String> {
        let positive = |value: &Value| value.as_f64().filter(|number| *number > 0.0 && number.is_finite());
        self.said(key).map(|value| positive(value).ok_or_else(|| format!("{key} = {value}"))).transpose()
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, String> {
        let said = self.said(key).map(|value| value.as_bool().ok_or_else(|| format!("{key} = {value}")));
        Ok(said.transpose()?.unwrap_or(default))
    }

    fn bias(&self, bias: Bias) -> Result<bool, String> {
        match bias {
            Bias::Always => Ok(true),
            Bias::Never => Ok(false),
            Bias::Key(key, default) => self.flag(key, default),
        }
    }

    fn activation(&self) -> Result<Activation, String> {
        let gelu = self.reads("hidden_activation");
        let key = if gelu && self.said("hidden_activation").is_some() { "hidden_activation" } else { "hidden_act" };
        match self.said(key).map(|value| value.as_str().ok_or(value)) {
            None if gelu => Ok(Activation::GeluTanh),
            // Gemma's older files name the exact function, and its programs compute the approximation.
            Some(Ok("gelu_pytorch_tanh" | "gelu")) if gelu => Ok(Activation::GeluTanh),
            None | Some(Ok("silu" | "swish")) => Ok(Activation::Silu),
            Some(Ok("gelu_pytorch_tanh" | "gelu_new")) => Ok(Activation::GeluTanh),
            Some(Ok(other)) => Err(format!("{key} = \"{other}\"")),
            Some(Err(other)) => Err(format!("{key} = {other}")),
        }
    }

    fn scales(&self, fields: &ConfigFields, sizes: &Sizes) -> Result<Scales, String> {
        let root = (sizes.head_dim as f64).sqrt();
        if self.reads("query_pre_attn_scalar") {
            let scalar = self.number("query_pre_attn_scalar")?.unwrap_or(256.0);
            // In float32, as the factor is rounded in transformers.
            let embedding = f64::from((fields.hidden_size as f64).sqrt() as f32);
            return Ok(Scales { embedding, attention: root / scalar.sqrt(), ..Scales::NONE });
        }
        if self.reads("logits_scaling") {
            return Ok(Scales {
                embedding: self.number("embedding_multiplier")?.unwrap_or(1.0),
                residual: self.number("residual_multiplier")?.unwrap_or(1.0),
                attention: self.number("attention_multiplier")?.unwrap_or(1.0) * root,
                logits: self.number("logits_scaling")?.unwrap_or(1.0).recip(),
            });
        }
        Ok(Scales::NONE)
    }

    fn caps(&self) -> Result<SoftCaps, String> {
        let default = |key: &str, default: f64| match self.source.get(key) {
            None if self.description.family == Family::Gemma2 => Ok(Some(default)),
            _ if self.reads(key) => self.number(key),
            _ => Ok(None),
        };
        Ok(SoftCaps {
            attention: default("attn_logit_softcapping", 50.0)?,
            logits: default("final_logit_softcapping", 30.0)?,
        })
    }

    fn ropes(&self, sizes: &Sizes) -> Result<Vec<Rope>, String> {
        let (positions, theta) = (sizes.positions, self.description.theta);
        match self.description.family {
            Family::Gemma3 => {
                let local = self.number("rope_local_base_freq")?.unwrap_or(10_000.0);
                Rope::read_by_kind(self.source, positions, theta, local)
            }
            Family::Olmo3 => {
                let own = self.number("rope_theta")?.unwrap_or(theta);
                Rope::read_by_kind(self.source, positions, theta, own)
            }
            _ => Ok(vec![Rope::read(self.source, positions, theta)?]),
        }
    }

    /// Number of rotated numbers of a head.
    fn rotated(&self, ropes: &[Rope], sizes: &Sizes) -> Result<i64, String> {
        let said = ropes.iter().find_map(|rope| rope.rotated);
        let Some(default) = self.description.rotated else {
            return match said.filter(|share| *share != 1.0) {
                None => Ok(sizes.head_dim),
                Some(share) => Err(format!("partial_rotary_factor = {share}")),
            };
        };
        let share = said.unwrap_or(default);
        let width = (sizes.head_dim as f64 * share) as i64;
        if share > 0.0 && share <= 1.0 && width >= 2 && width % 2 == 0 {
            Ok(width)
        } else {
            Err(format!("partial_rotary_factor = {share}, which must give an even number of at least 2"))
        }
    }

    fn layers(&self, count: i64) -> Result<Vec<LayerKind>, String> {
        let rotated = self.rotated_layers(count)?;
        let windows = self.windows(count, &rotated)?;
        let by_kind = matches!(self.description.family, Family::Gemma3 | Family::Olmo3);
        let hybrid = self.description.family == Family::Exaone4 && windows.iter().any(Option::is_some);
        let kind = |(index, window): (i64, Option<i64>)| {
            let rope = match window {
                Some(_) if by_kind => Some(1),
                None if hybrid => None,
                _ => rotated.get(index as usize).is_none_or(|rotated| *rotated).then_some(0),
            };
            Ok(LayerKind { window, rope, sparse: self.is_sparse(index)? })
        };
        (0..count).zip(windows).map(kind).collect()
    }

    /// Whether each layer has positions; empty if all have.
    fn rotated_layers(&self, count: i64) -> Result<Vec<bool>, String> {
        if !self.reads("no_rope_layers") {
            return Ok(Vec::new());
        }
        let Some(list) = self.said("no_rope_layers") else {
            let every = self.integer("no_rope_layer_interval")?.unwrap_or(4);
            if every < 1 {
                return Err(format!("no_rope_layer_interval = {every}"));
            }
            return Ok((1..=count).map(|layer| layer % every != 0).collect());
        };
        // 1 stands for a layer with positions, in spite of the key's name.
        let flags = list.as_array().map(|list| list.iter().map(|flag| flag.as_i64().map(|flag| flag != 0)));
        let flags: Option<Vec<bool>> = flags.and_then(Iterator::collect);
        flags
            .filter(|flags| flags.len() as i64 >= count)
            .ok_or_else(|| format!("no_rope_layers = {list}, which is not a number for each of {count} layers"))
    }

    /// Window of each layer.
    fn windows(&self, count: i64, rotated: &[bool]) -> Result<Vec<Option<i64>>, String> {
        let Some(window) = self.window()? else { return self.without_windows(count) };
        let last = self.integer("max_window_layers")?.unwrap_or(28);
        let every = match (self.description.windows, self.said("layer_types")) {
            (Windows::AllBut(every), None) => self.pattern(every)?,
            _ => 1,
        };
        let default = |layer: i64| match self.description.windows {
            Windows::Never => false,
            Windows::All | Windows::AllIfUsed => true,
            Windows::LastIfUsed => layer >= last,
            Windows::AlternateIfUsed => layer % 2 == 0 && layer < last,
            Windows::UnrotatedIfUsed => rotated.get(layer as usize).is_some_and(|rotated| !rotated),
            Windows::AllBut(_) => (layer + 1) % every != 0,
        };
        let limited = self.layer_types(count)?.unwrap_or_else(|| (0..count).map(default).collect());
        Ok(limited.into_iter().map(|limited| limited.then_some(window)).collect())
    }

    /// Full attention in all layers; an error if the file says something else.
    fn without_windows(&self, count: i64) -> Result<Vec<Option<i64>>, String> {
        match self.layer_types(count)? {
            Some(limited) if limited.contains(&true) => {
                Err("layer_types with sliding_attention, but no sliding_window".to_owned())
            }
            _ => Ok(vec![None; count as usize]),
        }
    }

    /// Window of the layers that have one; `None` if no layer has one.
    fn window(&self) -> Result<Option<i64>, String> {
        let used = match self.description.windows {
            Windows::Never => false,
            Windows::All | Windows::AllBut(_) => true,
            _ => self.flag("use_sliding_window", false)?,
        };
        let said = match self.source.get("sliding_window") {
            _ if !used => None,
            None => self.description.window,
            Some(_) => self.integer("sliding_window")?,
        };
        match said {
            Some(window) if window < 1 => Err(format!("sliding_window = {window}")),
            said => Ok(said),
        }
    }

    /// The n of which every n-th layer has full attention.
    fn pattern(&self, default: i64) -> Result<i64, String> {
        if !self.reads("sliding_window_pattern") {
            return Ok(default);
        }
        match self.integer("sliding_window_pattern")?.unwrap_or(default) {
            every if every < 1 => Err(format!("sliding_window_pattern = {every}")),
            every => Ok(every),
        }
    }

    /// Whether each layer has a window, as `layer_types` says it.
    fn layer_types(&self, count: i64) -> Result<Option<Vec<bool>>, String> {
        let Some(list) = self.said("layer_types").filter(|_| self.reads("layer_types")) else { return Ok(None) };
        let limited = |kind: &Value| match kind.as_str() {
            Some("full_attention") => Ok(false),
            Some("sliding_attention") => Ok(true),
            _ => Err(format!("layer_types = {kind}")),
        };
        let kinds = list.as_array().ok_or_else(|| format!("layer_types = {list}"))?;
        if kinds.len() as i64 != count {
            return Err(format!("layer_types with {} layers instead of num_hidden_layers = {count}", kinds.len()));
        }
        kinds.iter().map(limited).collect::<Result<_, _>>().map(Some)
    }

    fn is_sparse(&self, layer: i64) -> Result<bool, String> {
        let Some(names) = self.description.experts else { return Ok(false) };
        if *names == MIXTRAL_EXPERTS {
            return Ok(true);
        }
        let step = self.integer("decoder_sparse_step")?.unwrap_or(1);
        if step < 1 {
            return Err(format!("decoder_sparse_step = {step}"));
        }
        let dense = self.said("mlp_only_layers").and_then(Value::as_array);
        let is_dense = dense.is_some_and(|layers| layers.iter().any(|dense| dense.as_i64() == Some(layer)));
        Ok(!is_dense && (layer + 1) % step == 0)
    }

    fn experts(&self, fields: &ConfigFields) -> Result<Option<Experts>, String> {
        let Some(names) = self.description.experts else { return Ok(None) };
        let own = |key: &str, default: i64| Ok::<_, String>(self.integer(key)?.unwrap_or(default));
        let either = || Ok::<_, String>(self.integer("num_experts")?.or(self.integer("num_local_experts")?));
        let experts = match self.description.family {
            Family::Mixtral => Experts {
                count: either()?.unwrap_or(8),
                per_token: own("num_experts_per_tok", 2)?,
                width: fields.intermediate_size,
                normalised: true,
                shared_width: None,
                names,
            },
            family => {
                let shared = family == Family::Qwen2Moe;
                Experts {
                    count: either()?.unwrap_or(if shared { 60 } else { 128 }),
                    per_token: own("num_experts_per_tok", if shared { 4 } else { 8 })?,
                    width: own("moe_intermediate_size", if shared { 1408 } else { 768 })?,
                    normalised: self.flag("norm_topk_prob", false)?,
                    shared_width: if shared { Some(own("shared_expert_intermediate_size", 5632)?) } else { None },
                    names,
                }
            }
        };
        let widths = [experts.width, experts.shared_width.unwrap_or(1)];
        let all = experts.count.saturating_mul(fields.num_hidden_layers);
        let fits = (1..=MAX_EXPERTS).contains(&experts.count)
            && (1..=experts.count).contains(&experts.per_token)
            && widths.iter().all(|width| (1..=super::MAX_INTERMEDIATE).contains(width))
            && all <= MAX_ALL_EXPERTS;
        if fits {
            Ok(Some(experts))
        } else {
            Err(format!(
                "num_experts {}, num_experts_per_tok {} and moe_intermediate_size {}",
                experts.count, experts.per_token, experts.width
            ))
        }
    }
}
