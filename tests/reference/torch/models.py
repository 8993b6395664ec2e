"""Tiny random models, and computations on them by plain transformers and PyTorch, one sequence at a time."""

import functools
import tempfile

import torch
import transformers

VOCABULARY = 97
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.2,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
CONFIGS = {
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, head_dim=12, tie_word_embeddings=False),
    "llama": lambda: transformers.LlamaConfig(**SIZES, tie_word_embeddings=False),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **SIZES, head_dim=8, sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        final_logit_softcapping=20.0,
    ),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**SIZES, **EXPERTS, head_dim=12, tie_word_embeddings=False),
}  # fmt: skip
_FOLDERS = tempfile.TemporaryDirectory()


@functools.cache
def folder(name, dtype="float32"):
    """Folder of a saved model, with random norms and biases too."""
    torch.manual_seed(sum(name.encode()))
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=getattr(torch, dtype))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    path = f"{_FOLDERS.name}/{name}-{dtype}"
    model.save_pretrained(path)
    return path


def plain(path, dtype=torch.float64):
    """The model as transformers loads it."""
    # One loop over the experts in all number formats.
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype, experts_implementation="eager").eval()


def batch(lengths=(7, 12, 3, 9, 2), seed=5):
    """Sequences with targets: most of the tokens, and none of one sequence if there are at least four."""
    generator = torch.Generator().manual_seed(seed)
    tokens = [torch.randint(VOCABULARY, (length,), generator=generator) for length in lengths]
    targets = [torch.arange(1, length)[torch.rand(length - 1, generator=generator) < 0.7] for length in lengths]
    targets = [one if len(one) else torch.tensor([length - 1]) for one, length in zip(targets, lengths)]
    if len(lengths) >= 4:
        targets[2] = targets[2][:0]
    return {
        "tokens": torch.cat(tokens), "lengths": torch.tensor(lengths), "targets": torch.cat(targets),
        "counts": torch.tensor([len(one) for one in targets]),
    }  # fmt: skip


def weights(count, seed=3):
    """Weights of log-probabilities and entropies."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(count, generator=generator, dtype=torch.float64) for name in ("by_log_probs", "by_entropies")
    }


def score(model, batch, temperature=1.0):
    """Log-probabilities and entropies of a batch's targets."""
    log_probs, entropies = [], []
    sequences = batch["tokens"].split(batch["lengths"].tolist())
    for tokens, targets in zip(sequences, batch["targets"].split(batch["counts"].tolist())):
        logits = model(input_ids=tokens[None], use_cache=False).logits[0] / temperature
        everything = logits[targets - 1].log_softmax(-1)
        log_probs.append(everything.gather(1, tokens[targets][:, None])[:, 0])
        entropies.append(-(everything.exp() * everything).sum(-1))
    return torch.cat(log_probs), torch.cat(entropies)


def add_gradient(model, batch, by, temperature=1.0):
    """Adds the gradient of the weighted sum of log-probabilities and entropies."""
    log_probs, entropies = score(model, batch, temperature)
    total = (log_probs.double() * by["by_log_probs"]).sum() + (entropies.double() * by["by_entropies"]).sum()
    total.backward()


def adamw(model, epsilon=1e-8):
    """PyTorch's AdamW with the decay of the protocol: matrices, but not embeddings."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.ndim > 1 and id(parameter) not in embeddings]
    other = [parameter for parameter in trained if not (parameter.ndim > 1 and id(parameter) not in embeddings)]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=epsilon)
