"""Replies: their numbers, their randomness, their ends, and the order of sampling and training."""

import math
import time

import models
import pytest
import torch
import transformers
from client import Refused


def warped(logits, temperature, top_k=0, top_p=1.0, min_p=0.0):
    """Log-probabilities after transformers' own warpers."""
    scores = logits[None] / temperature
    for warper in (
        top_k > 0 and transformers.TopKLogitsWarper(top_k),
        top_p < 1 and transformers.TopPLogitsWarper(top_p),
        min_p > 0 and transformers.MinPLogitsWarper(min_p),
    ):
        scores = warper(None, scores) if warper else scores
    return scores[0].log_softmax(-1)


def logits_of(model, tokens):
    """Logits after each token."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]


def prompts(count):
    """Prompts of many lengths."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 40, (count,), generator=generator).tolist()
    return [torch.randint(models.VOCABULARY, (length,), generator=generator).tolist() for length in lengths]


@pytest.mark.parametrize("name", list(models.CONFIGS))
def test_numbers_are_those_of_a_forward_pass(engine, name):
    path = models.folder(name, "float64")
    engine.open(path)
    plain = models.plain(path)
    rules = [{}, {"temperature": 0.6}, {"top_k": 7}, {"top_p": 0.7, "temperature": 1.3}, {"min_p": 0.3}]
    rules += [{"temperature": 0.0}, {"top_k": 30, "top_p": 0.8, "min_p": 0.1, "temperature": 0.9}]
    asked = [(prompt, rules[index % len(rules)]) for index, prompt in enumerate(prompts(21))]
    numbers = []
    for index, (prompt, rule) in enumerate(asked):
        numbers.append(engine.start_reply(prompt, seed=index, max_tokens=3 + index, **rule))
    for index, (number, (prompt, rule)) in enumerate(zip(numbers, asked)):
        answer, found = engine.wait(number)
        assert answer == {"kind": "generated", "stop": "length", "version": 0}
        tokens = found["tokens"].tolist()
        assert len(tokens) == 3 + index and found["log_probs"].dtype == torch.float32
        logits = logits_of(plain, prompt + tokens)[len(prompt) - 1 : -1]
        temperature = rule.get("temperature", 1.0)
        if temperature == 0.0:
            assert tokens == logits.argmax(-1).tolist()
        uncut = (logits / (temperature or 1.0)).log_softmax(-1)
        cuts = {key: value for key, value in rule.items() if key != "temperature"}
        cut = torch.stack([warped(row, temperature or 1.0, **cuts) for row in logits])
        expected = cut.gather(1, found["tokens"][:, None])[:, 0]
        assert torch.allclose(found["log_probs"].double(), expected, atol=1e-5), rule
        assert torch.allclose(found["entropies"].double(), -(uncut.exp() * uncut).sum(-1), atol=1e-5)
    # The engine's own pass gives the same numbers.
    prompt = asked[0][0]
    answer, found = engine.reply(prompt, seed=5, max_tokens=30)
    tokens = torch.tensor(prompt + found["tokens"].tolist())
    targets = torch.arange(len(prompt), len(tokens))
    batch = {"tokens": tokens, "lengths": torch.tensor([len(tokens)]), "targets": targets, "counts": torch.tensor([30])}
    scored = engine.forward(batch)
    assert torch.allclose(found["log_probs"].double(), scored["log_probs"].double(), atol=1e-5)
    assert torch.allclose(found["entropies"].double(), scored["entropies"].double(), atol=1e-5)


@pytest.mark.parametrize("name", ["qwen2", "gemma3"])
def test_a_reply_does_not_depend_on_its_neighbours(one, two, name):
    alone = {}
    asked = prompts(60)
    for engine in (one, two):
        engine.open(models.folder(name, "float64"))
        for index in (0, 17, 59):
            alone[engine, index] = engine.reply(asked[index], seed=index, max_tokens=25)[1]
        numbers = []
        for index, prompt in enumerate(asked):
            most = 25 if index in (0, 17, 59) else 1 + index % 30
            numbers.append(engine.start_reply(prompt, seed=index, max_tokens=most))
            if index % 20 == 19:
                # Later requests join while earlier replies are in progress.
                time.sleep(0.05)
        found = [engine.wait(number)[1] for number in numbers]
        for index in (0, 17, 59):
            assert torch.equal(found[index]["tokens"], alone[engine, index]["tokens"])
            assert torch.allclose(found[index]["log_probs"], alone[engine, index]["log_probs"], atol=1e-5)
    for index in (0, 17, 59):
        assert torch.equal(alone[one, index]["tokens"], alone[two, index]["tokens"])
    again, other = one.reply(asked[0], seed=0, max_tokens=25)[1], one.reply(asked[0], seed=1, max_tokens=25)[1]
    assert torch.equal(again["tokens"], alone[one, 0]["tokens"])
    assert not torch.equal(other["tokens"], again["tokens"])


def test_replies_end_at_stop_tokens_and_at_the_end_of_the_context(engine):
    engine.open(models.folder("qwen2", "float64"))
    full = engine.reply([3, 4], seed=2, max_tokens=40)[1]["tokens"].tolist()
    stop = full[11]
    first = full.index(stop)
    answer, found = engine.reply([3, 4], seed=2, max_tokens=40, stop=[stop, models.VOCABULARY + 5])
    assert answer["stop"] == "token" and found["tokens"].tolist() == full[: first + 1]
    answer, found = engine.reply([3, 4], seed=2, max_tokens=first + 1, stop=[stop])
    assert answer["stop"] == "token" and len(found["tokens"]) == first + 1
    answer, found = engine.reply([5] * 250, max_tokens=1000)
    assert answer["stop"] == "length" and len(found["tokens"]) == 6
    with pytest.raises(Refused, match="prompt"):
        engine.reply([5] * 256)


@pytest.mark.parametrize("rule", [{}, {"top_p": 0.9, "temperature": 1.2}])
def test_first_tokens_have_the_frequencies_of_the_softmax(engine, rule):
    path = models.folder("llama", "float64")
    engine.open(path)
    prompt = [7, 30, 2]
    count = 4000
    numbers = [engine.start_reply(prompt, seed=seed, max_tokens=1, **rule) for seed in range(count)]
    tokens = torch.cat([engine.wait(number)[1]["tokens"] for number in numbers])
    probabilities = warped(logits_of(models.plain(path), prompt)[-1], **({"temperature": 1.0} | rule)).exp()
    found = torch.bincount(tokens, minlength=models.VOCABULARY)
    assert not found[probabilities == 0].any()
    expected = probabilities * count
    # Rare tokens share a class.
    common = expected >= 8
    pairs = [*zip(found[common].tolist(), expected[common].tolist())]
    if expected[~common].sum() >= 8:
        pairs.append((found[~common].sum().item(), expected[~common].sum().item()))
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in pairs)
    freedom = len(pairs) - 1
    assert freedom >= 20
    # Wilson and Hilferty's normal approximation: within 3.5 standard deviations on both sides.
    normal = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert abs(normal) < 3.5


def trained_once(engine, batch):
    engine.forward(batch, keep=True)
    engine.ask("backward", models.weights(len(batch["targets"])))
    return engine.step(rate=0.05)


def test_replies_wait_between_a_step_and_the_publication(engine):
    path = models.folder("qwen3", "float64")
    engine.open(path)
    batch = models.batch()
    engine.ask("publish", version=4)
    before = engine.reply([1, 2, 3], max_tokens=20)[1]["tokens"]
    # In progress when the step comes: it ends with the old weights before the step.
    old = engine.start_reply([1, 2, 3], max_tokens=200, seed=1)
    trained_once(engine, batch)
    answer, found = engine.answers[old][0]["answer"], engine.answers[old][1]
    assert answer["version"] == 4 and torch.equal(found["tokens"][:20], before)
    waiting = engine.start_reply([1, 2, 3], max_tokens=20)
    for _ in range(3):
        # Everything else is answered meanwhile.
        engine.forward(batch)
    engine.ask("reference", share=1.0)
    trained_once(engine, batch)
    assert waiting not in engine.answers
    engine.ask("publish", version=5)
    answer, found = engine.wait(waiting)
    assert answer["version"] == 5
    folder, _ = engine.save("published")
    tokens = [1, 2, 3, *found["tokens"].tolist()]
    log_probs = logits_of(models.plain(folder), tokens)[2:-1].log_softmax(-1)
    expected = log_probs.gather(1, found["tokens"][:, None])[:, 0]
    assert torch.allclose(found["log_probs"].double(), expected, atol=1e-5)


def test_replies_between_a_pass_and_its_gradient_change_nothing(engine):
    path = models.folder("gemma3", "float64")
    batch = models.batch()
    by = models.weights(len(batch["targets"]))
    norms = []
    for replies in (0, 30):
        engine.open(path, checkpointing=True)
        engine.ask("reference", share=1.0)
        engine.forward(batch, keep=True)
        numbers = [engine.start_reply(prompt, max_tokens=12) for prompt in prompts(replies)]
        # One reply is awaited, and others are in progress.
        if numbers:
            engine.wait(numbers[0])
            engine.forward(batch)
            engine.forward(batch, scorer="reference")
        engine.ask("backward", by)
        norms.append(engine.step()["norm"])
        for number in numbers[1:]:
            engine.wait(number)
    assert norms[0] == pytest.approx(norms[1], rel=1e-9)
