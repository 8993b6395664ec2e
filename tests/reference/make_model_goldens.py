#!/usr/bin/env python3
"""Writes tiny random checkpoints of each family with transformers, and the outputs of transformers for them.

make_model_goldens.py FOLDER writes FOLDER/NAME for each of MODELS and OTHERS: a Hugging Face folder with `golden.json`
(prompts and greedy continuations) and `golden.safetensors` (the logits of every position; for OTHERS also `grad.*`, the
gradients of the negative log-probability of the last prompt's tokens after its first one); and FOLDER/rope.json: the frequencies of
rotary positions for several `config.json`."""
import copy
import json
import pathlib
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

PROMPTS = [[5], [10, 20, 30, 40, 50], list(range(65, 90)), [257, 97, 98, 99, 258, 257] * 3]
CONTINUATION = 12


def rope(kind, theta, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


def by_kind(full, sliding):
    return {"full_attention": full, "sliding_attention": sliding}


FULL, SLIDING = "full_attention", "sliding_attention"
# Windows and original contexts are shorter than the longest prompt.
WINDOW, ORIGINAL = 6, 16
YARN = rope("yarn", 1e4, factor=4.0, original_max_position_embeddings=ORIGINAL)
PAIRS = {"short_factor": [1.0, 1.1, 1.2, 1.4, 1.7, 2.0], "long_factor": [1.0, 1.5, 2.5, 4.0, 6.0, 9.0]}
GEMMA = dict(head_dim=8, sliding_window=WINDOW, tie_word_embeddings=True, attn_implementation="eager")
# Name, prefix of the classes, seed, form of the weight files, and differences from SIZES.
MODELS = [
    ("qwen2-tied", "Qwen2", 7, {}, dict(num_key_value_heads=4, rope_parameters=rope("default", 1e4),
                                        tie_word_embeddings=True)),
    ("qwen2-untied", "Qwen2", 8, {}, dict(rope_parameters=rope("default", 1e6))),
    ("qwen3-tied", "Qwen3", 9, {"shards": "60KB"},
     dict(head_dim=16, rope_parameters=rope("linear", 1e4, factor=2.5), tie_word_embeddings=True)),
    ("qwen3-untied", "Qwen3", 10, {"dtype": torch.bfloat16},
     dict(head_dim=16, attention_bias=True, max_position_embeddings=16, rope_parameters=YARN)),
    ("llama-tied", "Llama", 11, {},
     dict(head_dim=16, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
          rope_parameters=rope("llama3", 100.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                               original_max_position_embeddings=32))),
    ("llama-untied", "Llama", 12, {"dtype": torch.float16},
     dict(rope_parameters=rope("dynamic", 1e4, factor=2.0))),
]
# The same, smaller, for the other families.
SMALL = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3)
OTHERS = [
    ("qwen2-windows", "Qwen2", 21, {}, dict(use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1)),
    ("mistral", "Mistral", 22, {}, dict(sliding_window=WINDOW, head_dim=8)),
    ("ministral3", "Ministral3", 23, {},
     dict(head_dim=8, rope_parameters={**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3})),
    ("mixtral", "Mixtral", 24, {}, dict(num_local_experts=4, num_experts_per_tok=2, num_hidden_layers=2)),
    ("qwen2-moe", "Qwen2Moe", 25, {},
     dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=20,
          decoder_sparse_step=2)),
    ("qwen3-moe", "Qwen3Moe", 26, {},
     dict(head_dim=8, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=10, norm_topk_prob=True,
          mlp_only_layers=[1])),
    ("gemma2", "Gemma2", 27, {},
     dict(**GEMMA, query_pre_attn_scalar=12, attn_logit_softcapping=1.5, final_logit_softcapping=4.0)),
    ("gemma3", ("Gemma3Text", "Gemma3"), 28, {},
     dict(**GEMMA, query_pre_attn_scalar=10, layer_types=[SLIDING, FULL, SLIDING],
          rope_parameters=by_kind(rope("linear", 1e6, factor=8.0), rope("default", 1e4)))),
    ("phi3", "Phi3", 29, {},
     dict(num_hidden_layers=2, hidden_size=64, original_max_position_embeddings=64,
          rope_parameters=rope("longrope", 1e4, partial_rotary_factor=0.75, **PAIRS))),
    ("phi3-long", "Phi3", 30, {"prompts": slice(2, None)},
     dict(num_hidden_layers=2, hidden_size=64, original_max_position_embeddings=ORIGINAL, sliding_window=WINDOW,
          rope_parameters=rope("longrope", 1e4, partial_rotary_factor=0.75, **PAIRS))),
    ("smollm3", "SmolLM3", 31, {}, dict(no_rope_layers=[1, 0, 1], tie_word_embeddings=True)),
    ("olmo2", "Olmo2", 32, {}, {}),
    ("olmo3", "Olmo3", 33, {},
     dict(sliding_window=WINDOW, layer_types=[SLIDING, FULL, SLIDING],
          rope_parameters=by_kind(YARN, rope("default", 1e4)))),
    ("granite", "Granite", 34, {},
     dict(embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=3.0)),
    ("seed-oss", "SeedOss", 35, {}, dict(head_dim=8, attention_dropout=0.0, residual_dropout=0.0)),
    ("exaone4", "Exaone4", 36, {}, dict(sliding_window=WINDOW, layer_types=[SLIDING, FULL, SLIDING])),
    ("ernie4.5", "Ernie4_5", 37, {}, dict(head_dim=8, use_bias=True, tie_word_embeddings=True)),
    ("hunyuan", "HunYuanDenseV1", 38, {}, dict(head_dim=8, rope_parameters=rope("dynamic", 1e4, factor=1.0, alpha=50.0))),
    ("glm4", "Glm4", 39, {}, dict(head_dim=8)),
]
# Models that also see pictures, of which the text part is loaded.
EYES = dict(depth=1, hidden_size=16, num_heads=2, intermediate_size=16, out_hidden_size=16, patch_size=4)
SIGLIP = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8)
WHOLES = [
    ("qwen2.5-vl", "Qwen2_5_VL", 41, dict(rope_parameters=rope("default", 1e4, mrope_section=[1, 1, 0])),
     dict(vision_config={**EYES, "fullatt_block_indexes": [0]})),
    ("qwen3-vl", "Qwen3VL", 42,
     dict(head_dim=8, rope_parameters=rope("default", 1e4, mrope_section=[2, 1, 1], mrope_interleaved=True)),
     dict(vision_config={**EYES, "deepstack_visual_indexes": [0], "num_position_embeddings": 16})),
    ("gemma3-vision", "Gemma3", 43,
     dict(head_dim=8, sliding_window=WINDOW, query_pre_attn_scalar=10, layer_types=[SLIDING, FULL, SLIDING],
          tie_word_embeddings=True), dict(vision_config=SIGLIP, mm_tokens_per_image=4)),
]
SIZES = dict(vocab_size=264, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False, pad_token_id=256,
             bos_token_id=None, eos_token_id=263)

# `config.json`s of published models, reduced to the keys of their rotary positions.
ROPES = [
    dict(head_dim=128, rope_theta=5e5, max_position_embeddings=131072,
         rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=8192)),
    dict(head_dim=64, rope_theta=5e5, max_position_embeddings=131072,
         rope_scaling=dict(rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=8192)),
    dict(head_dim=128, rope_theta=1e6, max_position_embeddings=32768,
         rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    dict(head_dim=128, max_position_embeddings=40960,
         rope_parameters=rope("yarn", 1e6, factor=4.0, original_max_position_embeddings=32768)),
    dict(head_dim=64, max_position_embeddings=4096,
         rope_parameters=rope("yarn", 1e4, factor=16.0, original_max_position_embeddings=1024, beta_fast=24.0,
                              beta_slow=2.0, truncate=False)),
    dict(head_dim=64, max_position_embeddings=4096,
         rope_parameters=rope("yarn", 1e4, factor=40.0, original_max_position_embeddings=4096, mscale=1.0,
                              mscale_all_dim=0.8)),
    dict(head_dim=64, max_position_embeddings=4096,
         rope_parameters=rope("yarn", 1e4, factor=None, original_max_position_embeddings=512, attention_factor=1.25)),
    dict(head_dim=64, max_position_embeddings=4096, rope_scaling=dict(type="linear", factor=3.0)),
    dict(head_dim=64, rope_theta=2e4, max_position_embeddings=4096, rope_scaling=dict(type="dynamic", factor=2.0)),
    dict(head_dim=80, max_position_embeddings=4096),
]


def tokenizer():
    """Bytes as tokens, through the tokenizers library's own byte table."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def classes(family):
    config, model = family if isinstance(family, tuple) else (family, family)
    return getattr(transformers, f"{config}Config"), getattr(transformers, f"{model}ForCausalLM")


def randomise(model):
    for name, parameter in model.named_parameters():
        # Biases of 0 and norms of 1 would hide mistakes; larger matrices make logits differ clearly.
        if name.endswith("norm.weight"):
            parameter.add_(torch.randn_like(parameter) * 0.1)
        elif name.endswith("bias"):
            parameter.add_(torch.randn_like(parameter) * 0.3)
        else:
            parameter.mul_(8.0)


def gradients(model, prompt):
    """By the names of the weight files: saved in the weights' places, and read again."""
    tokens = torch.tensor([prompt])
    log_probs = model(tokens).logits[0, :-1].log_softmax(-1)
    (-log_probs.gather(-1, tokens[0, 1:, None]).sum()).backward()
    holder = copy.deepcopy(model)
    with torch.no_grad():
        for own, source in zip(holder.parameters(), model.parameters()):
            own.copy_(torch.zeros_like(own) if source.grad is None else source.grad)
    with tempfile.TemporaryDirectory() as folder:
        holder.save_pretrained(folder)
        return {f"grad.{name}": values for name, values in load_file(f"{folder}/model.safetensors").items()}


def make(folder, family, seed, how, differs, with_gradients):
    torch.manual_seed(seed)
    config, kind = classes(family)
    model = kind(config(**{**SIZES, **differs})).float().eval()
    with torch.no_grad():
        randomise(model)
    save(folder, model, how)
    eager = {"attn_implementation": "eager"} if "attn_implementation" in differs else {}
    experts = {"experts_implementation": "eager"} if "num_experts_per_tok" in differs else {}
    model = kind.from_pretrained(folder, dtype=torch.float32, **eager, **experts).eval()
    compare(folder, model, PROMPTS[how.get("prompts", slice(None))], with_gradients)


def make_whole(folder, family, seed, text, more):
    torch.manual_seed(seed)
    config = getattr(transformers, f"{family}Config")(text_config={**SIZES, **SMALL, **text}, **more)
    kind = getattr(transformers, f"{family}ForConditionalGeneration")
    model = kind(config).float().eval()
    with torch.no_grad():
        randomise(model)
    save(folder, model, {})
    compare(folder, kind.from_pretrained(folder, dtype=torch.float32).eval(), PROMPTS, False)


def save(folder, model, how):
    folder.mkdir(parents=True, exist_ok=True)
    sharded = {"max_shard_size": how["shards"]} if "shards" in how else {}
    model.to(how.get("dtype", torch.float32)).save_pretrained(folder, **sharded)
    tokenizer().save_pretrained(folder)


def compare(folder, model, prompts, with_gradients):
    continuations, golden = [], {}
    with torch.no_grad():
        for index, prompt in enumerate(prompts):
            golden[f"logits.{index}"] = model(torch.tensor([prompt])).logits[0].contiguous()
            tokens = list(prompt)
            for _ in range(CONTINUATION):
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
            continuations.append(tokens[len(prompt):])
    (folder / "golden.json").write_text(json.dumps({"prompts": prompts, "continuations": continuations}) + "\n")
    if with_gradients:
        golden |= gradients(model, prompts[-1])
    save_file(golden, folder / "golden.safetensors")


def frequencies(source):
    config = LlamaConfig(**json.loads(json.dumps(source)), hidden_size=256, num_attention_heads=2)
    kind = config.rope_parameters["rope_type"]
    compute = ROPE_INIT_FUNCTIONS.get(kind, LlamaRotaryEmbedding.compute_default_rope_parameters)
    values, attention = compute(config)
    return {"config": source, "frequencies": [float(value) for value in values], "attention": attention}


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1])
    for name, *how in MODELS:
        make(root / name, *how, with_gradients=False)
    for name, *how, differs in OTHERS:
        make(root / name, *how, {**SMALL, **differs}, with_gradients=True)
    for name, *how in WHOLES:
        make_whole(root / name, *how)
    ropes = [frequencies(source) for source in ROPES]
    (root / "rope.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in ropes) + "\n]\n")
