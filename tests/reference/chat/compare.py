#!/usr/bin/env python3
"""Published chat templates, rendered and tokenised by this project and by transformers.

compare.py --program PROGRAM --folder FOLDER [--report FILE] [--only NAME]: PROGRAM is the example `conversation` of the
crate gymkhana-chat, FOLDER keeps the downloaded distributions. Fails if the project refuses more than 5 % of the
templates, or if fewer than 95 % of a template's conversations, or fewer than 30, have the text and tokens of transformers.
"""
import argparse
import collections
import datetime
import json
import pathlib
import subprocess
import tempfile

import growth
import sources
import tokenizer_files
from conversations import CONVERSATIONS, TOOLS, call, reply, result, user, variants, with_marks
from conversations import one as conversation
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

LEAST = 0.95
LEAST_CONVERSATIONS = 30
# One template in this many is also tokenised with the other kinds of tokenizers.
SAMPLE = 6


class Date(datetime.datetime):
    """The date that the project gives to templates."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = Date


class Reference:
    """A template in transformers."""

    def __init__(self, paths, template):
        added = json.loads(pathlib.Path(paths["tokenizer"]).read_text())["added_tokens"]
        self.marks = [token["content"] for token in added]
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=paths["tokenizer"], **tokenizer_files.NAMED)
        self.tokenizer.chat_template = template
        # Whether contents are lists of parts, as templates of models with images take them, and arguments JSON text.
        self.lists_contents = self.text_arguments = False

    def shaped_as(self, answers):
        self.lists_contents = any(answer.get("lists_contents") for answer in answers)
        self.text_arguments = any(answer.get("text_arguments") for answer in answers)
        return self

    def apply(self, one, **options):
        given = {"tools": one["tools"], "add_generation_prompt": True, **one["switches"], **options}
        messages = [self.shaped(message) for message in one["messages"]]
        return self.tokenizer.apply_chat_template(messages, **given)

    def shaped(self, message):
        if self.lists_contents:
            message = {**message, "content": [{"type": "text", "text": message["content"]}]}
        if self.text_arguments and "tool_calls" in message:
            message = {**message, "tool_calls": [with_text(call) for call in message["tool_calls"]]}
        return message

    def text(self, one):
        """The text, or None and the reason."""
        try:
            return self.apply(one, tokenize=False), None
        except Exception as error:
            return None, f"{type(error).__name__}: {error}".splitlines()[0]

    def tokens(self, one, **options):
        return self.apply(one, tokenize=True, return_dict=False, **options)


def with_text(call):
    function = call["function"]
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return {**call, "function": {**function, "arguments": arguments}}


def ours(program, cases):
    """The answers of the project's program."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    run = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in run.stdout.decode().split("\n") if line]


def case(paths, one, **more):
    return {**paths, **{key: one[key] for key in ("messages", "tools", "switches")}, **more}


def excerpt(left, right):
    """The place at which two texts or lists differ."""
    at = next((at for at, pair in enumerate(zip(left, right)) if pair[0] != pair[1]), min(len(left), len(right)))
    return f"at {at}: {left[max(0, at - 30):at + 50]!r} is not {right[max(0, at - 30):at + 50]!r}"


class Row:
    """The result of one template: counts, and the reasons of differences and refusals."""

    def __init__(self, entry):
        self.name, self.source = entry["name"], entry["source"]
        self.counts, self.notes = collections.Counter(), []

    def count(self, what, note=None):
        self.counts[what] += 1
        if note:
            self.notes.append(f"{what}: {note}")


def compare_given(row, reference, answers):
    """Conversations as they are given."""
    for one, answer in zip(CONVERSATIONS, answers):
        text, reason = reference.text(one)
        row.count("conversations")
        if text is None:
            if "error" in answer:
                row.count("refused by both")
            else:
                row.count("refused by transformers only", f"{one['name']}: {reason}")
        elif "error" in answer:
            row.count("refused here only", f"{one['name']}: {answer['error']}")
        elif text != answer["text"]:
            row.count("other text", f"{one['name']}: {excerpt(answer['text'], text)}")
        else:
            row.count("equal text")
            tokens = reference.tokens(one)
            if tokens == answer["tokens"]:
                row.count("equal tokens")
            else:
                row.count("other tokens", f"{one['name']}: {excerpt(answer['tokens'], tokens)}")


def compare_usual(row, reference, given, usual):
    """What the project changes by default must be what the template leaves out or refuses."""
    called = [user("q"), reply("", calls=[call({"city": "qzx"})]), result("r"), user("s")]
    shows_calls = "qzx" in (reference.text(conversation("", *called, tools=TOOLS))[0] or "")
    as_given = set()
    for one, plain, told in zip(CONVERSATIONS, given, usual):
        if plain == told or (plain.get("tokens") == told.get("tokens") and "tokens" in plain):
            row.count("as given")
            as_given.add(one["name"])
            continue
        text, _ = reference.text(one)
        has_calls = any(message.get("tool_calls") for message in one["messages"])
        shown = text is not None and all(part in text for part in wanted(one)) and (shows_calls or not has_calls)
        if "error" in told:
            row.count("refused by default", f"{one['name']}: {told['error']}")
        elif shown:
            row.count("moved without need", f"{one['name']}: {excerpt(told['text'], plain.get('text', ''))}")
        else:
            row.count("moved")
    return as_given


def wanted(one):
    """Words that a prompt has to hold: instructions, functions and results."""
    for message in one["messages"]:
        if message["role"] in ("system", "tool"):
            yield from message["content"].split()
    for tool in one["tools"] or []:
        yield tool["function"]["name"]


def compare_variants(row, reference, paths, program):
    """Forms of calls that are counted by themselves."""
    pairs = list(variants())
    for (kind, one), answer in zip(pairs, ours(program, [case(paths, one, as_given=True) for _, one in pairs])):
        text, reason = reference.text(one)
        if "error" in answer:
            row.count(f"{kind}: refused {'here only' if text is not None else 'by both'}", answer["error"])
        elif text is None:
            row.count(f"{kind}: refused by transformers only", reason)
        elif text == answer["text"]:
            row.count(f"{kind}: equal text")
        else:
            row.count(f"{kind}: other text", excerpt(answer["text"], text))


def compare_marks(row, reference, paths, program):
    """No mark in a text may become a mark. The reference is transformers' own protection."""
    marks = reference.marks[:12]
    several = list(with_marks(marks))
    names = reference.tokenizer.added_tokens_decoder
    for one, answer in zip(several, ours(program, [case(paths, one, as_given=True) for one in several])):
        text, _ = reference.text(one)
        if text is None or "error" in answer:
            row.count("marks: refused")
            continue
        row.count("marks: equal text" if text == answer["text"] else "marks: other text")
        real = [str(names[token]) for token in answer["tokens"] if token in names]
        tokens = reference.tokens(one, sanitize_control_tokens=True)
        expected = [str(names[token]) for token in tokens if token in names]
        if real == expected:
            row.count("marks: none forged")
        elif is_within(real, expected):
            row.count("marks: forged by transformers only", one["name"])
        elif is_within(expected, real) and all("think" in mark for mark in added_marks(expected, real)):
            # The template ends thoughts at the mark in a reply and writes the mark again.
            row.count("marks: written again by the template", one["name"])
        else:
            row.count("marks: forged", f"{one['name']}: {excerpt(real, expected)}")


def is_within(few, many):
    """Whether a list is another one without some of its items."""
    rest = iter(many)
    return all(item in rest for item in few)


def added_marks(few, many):
    return (collections.Counter(many) - collections.Counter(few)).keys()


def compare_kinds(row, entry, texts, folder, program):
    """The same conversations with other kinds of tokenizers."""
    for kind in list(tokenizer_files.KINDS)[1:]:
        paths = tokenizer_files.write(folder / kind, entry["text"], texts, kind)
        reference = Reference(paths, entry["text"])
        answers = ours(program, [case(paths, one, as_given=True) for one in CONVERSATIONS])
        reference.shaped_as(answers)
        for one, answer in zip(CONVERSATIONS, answers):
            text, _ = reference.text(one)
            if text is None or "text" not in answer or text != answer["text"]:
                continue
            equal = reference.tokens(one) == answer["tokens"]
            note = None if equal else f"{one['name']}: {excerpt(answer['tokens'], reference.tokens(one))}"
            row.count(f"{kind}: {'equal' if equal else 'other'} tokens", note)


def compare(entry, folder, program, sampled):
    row = Row(entry)
    first = Reference(tokenizer_files.write(folder, entry["text"]), entry["text"])
    texts = [text for text, _ in map(first.text, CONVERSATIONS) if text is not None]
    paths = tokenizer_files.write(folder, entry["text"], texts)
    reference = Reference(paths, entry["text"])
    given = ours(program, [case(paths, one, as_given=True) for one in CONVERSATIONS])
    if "refused" in given[0]:
        row.count("refused template", f"{given[0]['refused']} (transformers renders {len(texts)} conversations)")
        return row
    reference.shaped_as(given)
    row.count("contents as lists" if reference.lists_contents else "contents as text")
    row.count("arguments as text" if reference.text_arguments else "arguments as objects")
    compare_given(row, reference, given)
    as_given = compare_usual(row, reference, given, ours(program, [case(paths, one) for one in CONVERSATIONS]))
    compare_marks(row, reference, paths, program)
    compare_variants(row, reference, paths, program)
    grown = lambda cases: ours(program, [case(paths, one, grow=True) for one in cases])
    growth.compare(row, reference, grown, as_given)
    if sampled:
        compare_kinds(row, entry, texts, folder, program)
    return row


def is_sound(row):
    counts = row.counts
    compared = counts["conversations"] - counts["refused by both"]
    faults = ("marks: forged", "marks: other text", "moved without need", "growth: restarts without a change",
              "growth: other end than whole", "growth: other than the end in transformers")
    enough = counts["equal tokens"] >= max(LEAST * compared, LEAST_CONVERSATIONS)
    return bool(counts["refused template"]) or (enough and not any(counts[fault] for fault in faults))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    entries = sources.checked(sources.fetch(arguments.folder))
    assert len(entries) >= 100
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, entry in enumerate(entries):
            if arguments.only in entry["name"]:
                made = pathlib.Path(folder) / str(number)
                rows.append(compare(entry, made, arguments.program.resolve(), number % SAMPLE == 0))
    totals = collections.defaultdict(collections.Counter)
    for row in rows:
        totals[row.source].update(row.counts)
        totals[row.source]["templates"] += 1
        print(f"{row.name}: {'' if is_sound(row) else 'FAILED '}{dict(row.counts)}")
    for source, counts in totals.items():
        print(source, json.dumps(counts, indent=1, sort_keys=True))
    if arguments.report:
        lines = [{"name": row.name, "counts": row.counts, "notes": row.notes} for row in rows]
        arguments.report.write_text(json.dumps(lines, indent=1, ensure_ascii=False))
    failed = [row.name for row in rows if not is_sound(row)]
    assert not failed, f"less than {LEAST:.0%} equal, or another fault: {failed}"
    refused = [row.notes for row in rows if row.counts["refused template"]]
    print(f"{len(rows) - len(refused)} of {len(rows)} templates accepted; refused: {refused}")
    assert len(refused) <= (1 - LEAST) * len(rows)


if __name__ == "__main__":
    main()
