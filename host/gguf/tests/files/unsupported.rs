//! Well-formed files of other architectures, or with settings that contradict each other.

use gymkhana_gguf::GgufModel;
use serde_json::{Value as Json, json};

use crate::builder::{Builder, Value, llama};

fn with(key: &str, value: Value) -> String {
    llama().with(key, value).refused()
}

fn file<R: std::io::Read + std::io::Seek>(model: &GgufModel<R>, wanted: &str) -> Json {
    let (_, text) = model.files().iter().find(|(name, _)| *name == wanted).unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn other_kinds_of_files_are_refused() {
    assert_eq!(with("general.architecture", Value::Text("mamba")), "its architecture `mamba` is not supported");
    assert_eq!(llama().without("general.architecture").refused(), "key `general.architecture` is missing");
    assert_eq!(with("general.type", Value::Text("adapter")), "it holds no model but `adapter`");
    assert_eq!(with("split.count", Value::U32(3)), "it is one of 3 parts of a model");
    assert_eq!(with("split.count", Value::Text("3")), "key `split.count` is not a whole number");
}

#[test]
fn keys_that_could_change_the_computation_are_refused() {
    assert_eq!(with("llama.expert_count", Value::U32(8)), "key `llama.expert_count` is not supported");
    assert_eq!(
        with("llama.attention.sliding_window", Value::U32(4096)),
        "key `llama.attention.sliding_window` is not supported"
    );
    llama().with("llama.expert_count", Value::U32(0)).with("general.quantization_version", Value::U32(2)).read();
    assert_eq!(with("llama.vocab_size", Value::U32(7)), "`llama.vocab_size` is 7, but the embedding has 6 rows");
    assert_eq!(
        llama()
            .with("llama.attention.key_length", Value::U32(4))
            .with("llama.rope.dimension_count", Value::U32(2))
            .refused(),
        "llama.attention.key_length, llama.attention.value_length, llama.rope.dimension_count are [4, 2]: heads of \
         parts with different widths"
    );
    assert_eq!(with("llama.attention.head_count", Value::U32(3)), "width 8 is not a multiple of 3 heads");
    assert_eq!(with("llama.attention.head_count", Value::U32(0)), "width 8 is not a multiple of 0 heads");
    assert_eq!(llama().without("llama.context_length").refused(), "key `llama.context_length` is missing");
}

#[test]
fn tensors_must_be_those_of_the_architecture() {
    let mut file = llama();
    file.add("blk.0.ffn_gate_inp.weight", vec![8, 8]);
    assert_eq!(file.refused(), "tensor `blk.0.ffn_gate_inp.weight` is not one of the architecture `llama`");
    let mut file = llama();
    file.tensors.retain(|(name, ..)| name != "token_embd.weight");
    assert_eq!(file.refused(), "tensor `token_embd.weight` is missing");
    let mut file = llama();
    file.tensor("blk.0.attn_k.weight").1 = vec![4, 8];
    assert_eq!(file.refused(), "tensor `blk.0.attn_k.weight` has the shape [8, 4], which is not 1 heads of width 4");
    for (code, name) in [(16, "type IQ2_XXS"), (39, "type MXFP4"), (99, "the unknown type 99")] {
        let mut file = llama();
        file.tensor("output_norm.weight").2 = code;
        assert_eq!(file.refused(), format!("tensor `output_norm.weight` has {name}"));
    }
}

#[test]
fn tokenizers_must_be_known_and_fit_the_embedding() {
    assert_eq!(with("tokenizer.ggml.model", Value::Text("bert")), "its tokenizer is of the kind `bert`");
    assert_eq!(with("tokenizer.ggml.pre", Value::Text("tekken")), "its tokenizer splits texts as `tekken`");
    let tokens = |tokens: Vec<&'static str>| with("tokenizer.ggml.tokens", Value::Texts(tokens));
    assert_eq!(
        tokens(vec!["<unk>", "<s>", "</s>", "a", "b", "ab", "c"]),
        "its tokenizer has 7 tokens, but the embedding has 6 rows"
    );
    assert_eq!(tokens(vec!["a", "b", "ab"]), "it has 3 tokens, but types for 6");
    assert_eq!(tokens(vec!["<unk>", "<s>", "</s>", "a", "b", "a"]), "token 5 is `a`, as another one");
    assert_eq!(
        with("tokenizer.ggml.merges", Value::Texts(vec!["a c"])),
        "merge `a c` is not of two tokens of the vocabulary"
    );
    assert_eq!(
        with("tokenizer.ggml.eos_token_id", Value::U32(6)),
        "`tokenizer.ggml.eos_token_id` is 6, which is not a token"
    );
    assert_eq!(
        with("tokenizer.ggml.tokens", Value::Numbers(vec![1])),
        "key `tokenizer.ggml.tokens` is not a list of texts"
    );
    assert_eq!(with("tokenizer.ggml.token_type", Value::Numbers(vec![9; 6])), "a token has the unknown type 9");
    let sentencepiece = || llama().with("tokenizer.ggml.model", Value::Text("llama"));
    assert_eq!(sentencepiece().refused(), "key `tokenizer.ggml.scores` is missing");
    let ends = llama().without("tokenizer.ggml.eos_token_id").with("tokenizer.ggml.add_eos_token", Value::Switch(true));
    assert!(ends.refused().contains("`tokenizer.ggml.eos_token_id` is missing"));
}

fn scaled(kind: &'static str, factor: f32) -> Builder {
    let file = llama().with("llama.rope.scaling.type", Value::Text(kind));
    file.with("llama.rope.scaling.factor", Value::F32(factor))
}

#[test]
fn scaled_positions_are_written_or_refused() {
    assert_eq!(scaled("linear", 4.0).read().config()["rope_scaling"], json!({ "rope_type": "linear", "factor": 4.0 }));
    let yarn = scaled("yarn", 4.0).with("llama.rope.scaling.original_context_length", Value::U32(16));
    let expected = json!({ "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16 });
    assert_eq!(yarn.read().config()["rope_scaling"], expected);
    assert_eq!(scaled("longrope", 4.0).refused(), "`llama.rope.scaling.type` is `longrope`");
    assert_eq!(scaled("none", 1.0).read().config().get("rope_scaling"), None);
    let mut file = llama();
    file.add("rope_freqs.weight", vec![2]);
    assert_eq!(
        file.refused(),
        "the tensor `rope_freqs.weight` has other factors than the positions of Llama 3",
        "all factors are 0"
    );
}

#[test]
fn several_templates_and_ends_are_kept() {
    let file_of = llama()
        .with("tokenizer.chat_template", Value::Text("A"))
        .with("tokenizer.chat_template.tool_use", Value::Text("B"))
        .with("tokenizer.ggml.eot_token_id", Value::U32(3))
        .with("tokenizer.ggml.add_bos_token", Value::Switch(true));
    let model = file_of.read();
    let templates = json!([{ "name": "default", "template": "A" }, { "name": "tool_use", "template": "B" }]);
    assert_eq!(file(&model, "tokenizer_config.json")["chat_template"], templates);
    assert_eq!(file(&model, "generation_config.json")["eos_token_id"], json!([2, 3]));
    let processors = &file(&model, "tokenizer.json")["post_processor"]["processors"];
    assert_eq!(processors[1]["single"][0], json!({ "SpecialToken": { "id": "<s>", "type_id": 0 } }));
    assert_eq!(processors[1]["special_tokens"]["<s>"]["ids"], json!([1]));
}

#[test]
fn pieces_with_scores_become_merges_in_the_order_of_their_scores() {
    let tokens = vec!["<unk>", "<s>", "a", "b", "ab", "aba"];
    let scores: Vec<u8> = [0.0_f32, 0.0, -3.0, -4.0, -2.0, -1.0].iter().flat_map(|score| score.to_le_bytes()).collect();
    let list = [&6_u32.to_le_bytes()[..], &6_u64.to_le_bytes(), &scores].concat();
    let model = llama()
        .with("tokenizer.ggml.model", Value::Text("llama"))
        .with("tokenizer.ggml.tokens", Value::Texts(tokens))
        .with("tokenizer.ggml.token_type", Value::Numbers(vec![2, 3, 1, 1, 1, 1]))
        .with("tokenizer.ggml.scores", Value::Raw(9, list))
        .read();
    let tokenizer = file(&model, "tokenizer.json");
    assert_eq!(tokenizer["model"]["merges"], json!([["ab", "a"], ["a", "b"]]));
    assert_eq!(
        (&tokenizer["model"]["unk_token"], &tokenizer["model"]["byte_fallback"]),
        (&json!("<unk>"), &json!(true))
    );
    assert_eq!(tokenizer["post_processor"]["type"], "TemplateProcessing", "texts begin with a token");
}
