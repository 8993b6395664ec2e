"""Greedy replies with log-probabilities beside transformers on the same weights."""
import json

import torch
from transformers import AutoTokenizer

PROMPTS, TOKENS, TOLERANCE = 50, 12, 1e-4
SUBJECTS = ["the sun", "a river", "prime numbers", "tea", "a bicycle", "Rust", "the sea", "winter", "a poem", "42"]
REQUESTS = [
    "Describe {}.", "What is {}?", "Write one sentence about {}.", "Translate '{}' into French.", "Count to {}!",
]


def log_probs(model, prompt, reply):
    """Log-probabilities of a reply's tokens, and the most probable token at each place."""
    tokens = torch.tensor([prompt + reply])
    with torch.no_grad():
        logits = model(tokens).logits[0, len(prompt) - 1:-1].double()
    found = torch.log_softmax(logits, -1)
    return found[torch.arange(len(reply)), torch.tensor(reply)].tolist(), logits.argmax(-1).tolist()


def compare(host, folder, model, tokenizer, prompt):
    """Fails unless a greedy reply of `host generate` has the tokens and log-probabilities of a model in transformers.
    Returns the largest difference of log-probabilities."""
    limits = ["--temperature", "0", "--max-tokens", TOKENS, "--threads", 2]
    reply = json.loads(host.run("generate", folder, prompt, "--json", *limits))
    messages = [{"role": "user", "content": prompt}]
    begin = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    expected, best = log_probs(model, begin, reply["tokens"])
    assert reply["tokens"] == best, f"{prompt}: {reply['tokens']} is not {best}"
    difference = max(abs(own - other) for own, other in zip(reply["log_probs"], expected, strict=True))
    assert difference <= TOLERANCE, f"{prompt}: log-probabilities differ by {difference}"
    return difference


def check(host, folder, model):
    """Tokens and log-probabilities of a reply to each prompt."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = [request.format(subject) for request in REQUESTS for subject in SUBJECTS]
    assert len(prompts) == PROMPTS
    largest = max(compare(host, folder, model, tokenizer, prompt) for prompt in prompts)
    print(f"generation: greedy tokens of {PROMPTS} prompts are equal; log-probabilities differ by up to {largest:.1e}")
