//! Model families: what `config.json` means for each, as a table.

use super::decoder::{BlockNorms, ExpertNames, MIXTRAL_EXPERTS, QWEN_EXPERTS, QueryKeyNorm};

/// Supported model families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Llama and models of the same architecture.
    Llama,
    /// Qwen2 and Qwen2.5: biases on the query, key and value projections.
    Qwen2,
    /// Qwen3: norms of the heads of queries and keys.
    Qwen3,
    /// Mistral: Llama, with windows in early models.
    Mistral,
    /// Ministral 3: Mistral, whose queries grow with their position.
    Ministral3,
    /// Mixtral: Mistral with experts.
    Mixtral,
    /// Qwen2 with experts, one of which all tokens use.
    Qwen2Moe,
    /// Qwen3 with experts.
    Qwen3Moe,
    /// Gemma 2: norms around both parts, windows in every other layer, bounds of scores and logits.
    Gemma2,
    /// Gemma 3 of texts: norms of heads and around both parts, windows in five of six layers, which have rotary positions of
    /// their own.
    Gemma3,
    /// Phi-3 and Phi-4: fused matrices and rotary positions with a factor for each pair.
    Phi3,
    /// SmolLM3: Llama with layers without positions.
    SmolLm3,
    /// OLMo 2: norms of outputs and of all query and key heads together.
    Olmo2,
    /// OLMo 3: OLMo 2 with windows in three of four layers.
    Olmo3,
    /// Granite 3 and 4 without experts and state spaces: four factors.
    Granite,
    /// Seed-OSS: biases on the query, key and value projections, and heads of a width of their own.
    SeedOss,
    /// EXAONE 4: norms of outputs and of heads, windows in three of four layers, and no positions in the fourth.
    Exaone4,
    /// ERNIE 4.5 without experts: neighbouring pairs are rotated.
    Ernie45,
    /// Hunyuan without experts: norms of rotated heads.
    Hunyuan,
    /// GLM 4 (0414): norms around both parts, half of each head rotated in neighbouring pairs.
    Glm4,
}

/// Whether linear layers have biases.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bias {
    Always,
    Never,
    /// If the key says so; with the value of a file without it.
    Key(&'static str, bool),
}

/// Which layers see only a window of the last positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Windows {
    /// No layer: the family does not read the key.
    Never,
    /// All, if `sliding_window` is there and not null.
    All,
    /// All, if `use_sliding_window` and `sliding_window` say so.
    AllIfUsed,
    /// Those from `max_window_layers` on, if `use_sliding_window` and `sliding_window` say so.
    LastIfUsed,
    /// The first of two up to `max_window_layers`, if `use_sliding_window` and `sliding_window` say so.
    AlternateIfUsed,
    /// Those without positions, if `use_sliding_window` and `sliding_window` say so.
    UnrotatedIfUsed,
    /// All but every n-th; a key may hold another n.
    AllBut(i64),
}

/// What a family's `config.json` means.
#[derive(Debug)]
pub(super) struct FamilyDescription {
    pub family: Family,
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// Name in `architectures` of the causal language model.
    pub architecture: &'static str,
    /// Defaults of `max_position_embeddings`, `rms_norm_eps`, `rope_theta`, `head_dim` and `tie_word_embeddings`.
    pub positions: i64,
    pub epsilon: f64,
    pub theta: f64,
    pub head_dim: Option<i64>,
    pub tied: bool,
    pub query_key_value_bias: Bias,
    pub output_bias: Bias,
    pub mlp_bias: Bias,
    pub norms: BlockNorms,
    pub norms_add_one: bool,
    pub query_key_norm: Option<QueryKeyNorm>,
    /// Whether matrices of queries, keys and values, and of gate and up projection, are one each.
    pub fused: [bool; 2],
    pub interleaved: bool,
    /// Default of `partial_rotary_factor`, if the family reads it.
    pub rotated: Option<f64>,
    pub windows: Windows,
    /// Default of `sliding_window`.
    pub window: Option<i64>,
    pub experts: Option<&'static ExpertNames>,
    /// Further keys that this family reads.
    pub keys: &'static [&'static str],
}

const ATTENTION_BIAS: Bias = Bias::Key("attention_bias", false);

const LLAMA: FamilyDescription = FamilyDescription {
    family: Family::Llama,
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    positions: 2048,
    epsilon: 1e-6,
    theta: 10_000.0,
    head_dim: None,
    tied: false,
    query_key_value_bias: ATTENTION_BIAS,
    output_bias: ATTENTION_BIAS,
    mlp_bias: Bias::Key("mlp_bias", false),
    norms: BlockNorms::BEFORE,
    norms_add_one: false,
    query_key_norm: None,
    fused: [false, false],
    interleaved: false,
    rotated: None,
    windows: Windows::Never,
    window: None,
    experts: None,
    keys: &[],
};

const QWEN2: FamilyDescription = FamilyDescription {
    family: Family::Qwen2,
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    positions: 32_768,
    query_key_value_bias: Bias::Always,
    output_bias: Bias::Never,
    mlp_bias: Bias::Never,
    windows: Windows::LastIfUsed,
    window: Some(4096),
    keys: &["layer_types", "max_window_layers"],
    ..LLAMA
};

const QWEN3: FamilyDescription = FamilyDescription {
    family: Family::Qwen3,
    model_type: "qwen3",
    architecture: "Qwen3ForCausalLM",
    head_dim: Some(128),
    query_key_value_bias: ATTENTION_BIAS,
    output_bias: ATTENTION_BIAS,
    query_key_norm: Some(QueryKeyNorm::Heads),
    ..QWEN2
};

const MISTRAL: FamilyDescription = FamilyDescription {
    family: Family::Mistral,
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    positions: 131_072,
    query_key_value_bias: Bias::Never,
    output_bias: Bias::Never,
    mlp_bias: Bias::Never,
    windows: Windows::All,
    window: Some(4096),
    ..LLAMA
};

const EXPERT_KEYS: &[&str] = &[
    "num_experts",
    "num_local_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "norm_topk_prob",
    "decoder_sparse_step",
    "mlp_only_layers",
    "qkv_bias",
    "layer_types",
    "max_window_layers",
];

const GEMMA2: FamilyDescription = FamilyDescription {
    family: Family::Gemma2,
    model_type: "gemma2",
    architecture: "Gemma2ForCausalLM",
    positions: 8192,
    head_dim: Some(256),
    tied: true,
    mlp_bias: Bias::Never,
    norms: BlockNorms::AROUND,
    norms_add_one: true,
    windows: Windows::AllBut(2),
    window: Some(4096),
    keys: &[
        "hidden_activation",
        "query_pre_attn_scalar",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "layer_types",
    ],
    ..LLAMA
};

const OLMO2: FamilyDescription = FamilyDescription {
    family: Family::Olmo2,
    model_type: "olmo2",
    architecture: "Olmo2ForCausalLM",
    epsilon: 1e-5,
    mlp_bias: Bias::Never,
    norms: BlockNorms::AFTER,
    query_key_norm: Some(QueryKeyNorm::Whole),
    ..LLAMA
};

/// All families, in the order of [`Family`].
pub(super) static FAMILIES: [FamilyDescription; 20] = [
    LLAMA,
    QWEN2,
    QWEN3,
    MISTRAL,
    FamilyDescription {
        family: Family::Ministral3,
        model_type: "ministral3",
        architecture: "Ministral3ForCausalLM",
        positions: 262_144,
        epsilon: 1e-5,
        head_dim: Some(128),
        window: None,
        ..MISTRAL
    },
    FamilyDescription {
        family: Family::Mixtral,
        model_type: "mixtral",
        architecture: "MixtralForCausalLM",
        epsilon: 1e-5,
        theta: 1e6,
        window: None,
        experts: Some(&MIXTRAL_EXPERTS),
        keys: &["num_local_experts", "num_experts", "num_experts_per_tok"],
        ..MISTRAL
    },
    FamilyDescription {
        family: Family::Qwen2Moe,
        model_type: "qwen2_moe",
        architecture: "Qwen2MoeForCausalLM",
        query_key_value_bias: Bias::Key("qkv_bias", true),
        windows: Windows::AlternateIfUsed,
        experts: Some(&QWEN_EXPERTS),
        keys: EXPERT_KEYS,
        ..QWEN2
    },
    FamilyDescription {
        family: Family::Qwen3Moe,
        model_type: "qwen3_moe",
        architecture: "Qwen3MoeForCausalLM",
        head_dim: None,
        windows: Windows::AllIfUsed,
        experts: Some(&QWEN_EXPERTS),
        keys: EXPERT_KEYS,
        ..QWEN3
    },
    GEMMA2,
    FamilyDescription {
        family: Family::Gemma3,
        model_type: "gemma3_text",
        architecture: "Gemma3ForCausalLM",
        positions: 131_072,
        theta: 1e6,
        query_key_norm: Some(QueryKeyNorm::Heads),
        windows: Windows::AllBut(6),
        keys: &[
            "hidden_activation",
            "query_pre_attn_scalar",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "layer_types",
            "sliding_window_pattern",
            "rope_local_base_freq",
        ],
        ..GEMMA2
    },
    FamilyDescription {
        family: Family::Phi3,
        model_type: "phi3",
        architecture: "Phi3ForCausalLM",
        positions: 4096,
        epsilon: 1e-5,
        query_key_value_bias: Bias::Never,
        output_bias: Bias::Never,
        mlp_bias: Bias::Never,
        fused: [true, true],
        rotated: Some(1.0),
        windows: Windows::All,
        ..LLAMA
    },
    FamilyDescription {
        family: Family::SmolLm3,
        model_type: "smollm3",
        architecture: "SmolLM3ForCausalLM",
        positions: 32_768,
        theta: 2e6,
        tied: true,
        windows: Windows::UnrotatedIfUsed,
        keys: &["no_rope_layers", "no_rope_layer_interval", "layer_types"],
        ..LLAMA
    },
    OLMO2,
    FamilyDescription {
        family: Family::Olmo3,
        model_type: "olmo3",
        architecture: "Olmo3ForCausalLM",
        theta: 500_000.0,
        windows: Windows::AllBut(4),
        window: Some(4096),
        keys: &["layer_types"],
        ..OLMO2
    },
    FamilyDescription {
        family: Family::Granite,
        model_type: "granite",
        architecture: "GraniteForCausalLM",
        keys: &["embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"],
        ..LLAMA
    },
    FamilyDescription {
        family: Family::SeedOss,
        model_type: "seed_oss",
        architecture: "SeedOssForCausalLM",
        positions: 524_288,
        head_dim: Some(128),
        query_key_value_bias: Bias::Key("attention_bias", true),
        output_bias: Bias::Key("attention_out_bias", false),
        ..LLAMA
    },
    FamilyDescription {
        family: Family::Exaone4,
        model_type: "exaone4",
        architecture: "Exaone4ForCausalLM",
        epsilon: 1e-5,
        query_key_value_bias: Bias::Never,
        output_bias: Bias::Never,
        mlp_bias: Bias::Never,
        norms: BlockNorms::AFTER,
        query_key_norm: Some(QueryKeyNorm::Heads),
        windows: Windows::AllBut(4),
        window: Some(4096),
        keys: &["layer_types", "sliding_window_pattern"],
        ..LLAMA
    },
    FamilyDescription {
        family: Family::Ernie45,
        model_type: "ernie4_5",
        architecture: "Ernie4_5ForCausalLM",
        positions: 131_072,
        epsilon: 1e-5,
        theta: 500_000.0,
        head_dim: Some(128),
        tied: true,
        query_key_value_bias: Bias::Key("use_bias", false),
        output_bias: Bias::Key("use_bias", false),
        mlp_bias: Bias::Key("use_bias", false),
        interleaved: true,
        ..LLAMA
    },
    FamilyDescription {
        family: Family::Hunyuan,
        model_type: "hunyuan_v1_dense",
        architecture: "HunYuanDenseV1ForCausalLM",
        epsilon: 1e-5,
        mlp_bias: Bias::Never,
        query_key_norm: Some(QueryKeyNorm::RotatedHeads),
        ..LLAMA
    },
    FamilyDescription {
        family: Family::Glm4,
        model_type: "glm4",
        architecture: "Glm4ForCausalLM",
        positions: 131_072,
        epsilon: 1.5625e-7,
        head_dim: Some(128),
        query_key_value_bias: Bias::Key("attention_bias", true),
        output_bias: Bias::Never,
        mlp_bias: Bias::Never,
        norms: BlockNorms::AROUND_GLM,
        fused: [false, true],
        interleaved: true,
        rotated: Some(0.5),
        ..LLAMA
    },
];

impl FamilyDescription {
    /// The family of a `model_type`.
    pub fn of(model_type: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|description| description.model_type == model_type)
    }
}

impl Family {
    pub(super) fn description(self) -> &'static FamilyDescription {
        &FAMILIES[self as usize]
    }
}

/// Families that are known but not computed, with what they need. Servers can sample and train them.
const OTHERS: [(&str, &str); 22] = [
    ("qwen3_5", "linear attention and gated outputs"),
    ("qwen3_5_moe", "linear attention and gated outputs"),
    ("qwen3_5_text", "linear attention and gated outputs"),
    ("qwen3_next", "linear attention and gated outputs"),
    ("gpt_oss", "attention sinks and clamped experts with biases"),
    ("cohere", "parallel parts of a layer"),
    ("cohere2", "parallel parts of a layer"),
    ("gemma", "norms before rounding"),
    ("gemma3n", "layers that share keys and values"),
    ("gemma4", "several widths of heads"),
    ("apertus", "the activation xIELU"),
    ("lfm2", "convolutions"),
    ("nemotron_h", "state spaces"),
    ("granitemoehybrid", "state spaces"),
    ("falcon_h1", "state spaces"),
    ("deepseek_v3", "latent attention"),
    ("glm4_moe", "experts with a correction of their choice"),
    ("minimax_m2", "experts with a correction of their choice"),
    ("llama4", "experts and chunked attention"),
    ("qwen3_vl_moe", "fused experts"),
    ("phimoe", "experts with sparse mixing"),
    ("granitemoe", "fused experts"),
];

/// What a known family needs that is not computed.
pub(super) fn missing(model_type: &str) -> Option<&'static str> {
    OTHERS.iter().find(|(name, _)| *name == model_type).map(|(_, missing)| *missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_in_the_order_of_families() {
        for description in &FAMILIES {
            assert_eq!(description.family.description().model_type, description.model_type);
        }
    }

    #[test]
    fn every_family_has_a_name_of_its_own() {
        let mut names: Vec<&str> = FAMILIES.iter().map(|description| description.model_type).collect();
        names.extend(OTHERS.iter().map(|(name, _)| *name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
