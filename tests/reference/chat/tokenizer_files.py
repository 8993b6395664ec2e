"""Tokenizers for a template: its marks as added tokens, beside bytes or the words of one of several kinds of models."""
import json
import pathlib
import re

BASE = pathlib.Path(__file__).parents[2] / "golden" / "chat" / "tokenizer.json"
MARKS = re.compile(r"<\|[^|<>\s'\"{}]{1,60}\|>|<｜[^｜<>]{1,60}｜>|<\|?/?[A-Za-z_][\w:.-]{0,60}\|?>|<<?/?SYS>>?|"
                   r"\[/?[A-Z_]{3,40}\]|\]~!b\[|\]~b\]|\[e~\[|\]<\]minimax\[>\[|<[^\x00-\x7f][^<>\s'\"]{0,40}>")
# Marks that templates compose of a word and a variant.
COMPOSED = re.compile(r"<｜[^｜<>]{1,60}｜>|<\|[^|<>\s'\"{}]{1,60}\|>|</?[a-z_]+:[a-z]+>")
NAMED = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
# Marks that end replies, read off the templates: the packages hold no `generation_config.json`.
ENDS = ["<|call|>", "<|calls|>", "<|tool_response>", "<|END_OF_TURN_TOKEN|>", "<｜hy_eos:opensource｜>"]
SPACE = "\u2581"


def marks_of(template, texts=()):
    """The marks that stand in a template, longest first, and those that it composes: they stand in its texts only."""
    found = {*MARKS.findall(template), *(mark for text in texts for mark in COMPOSED.findall(text))}
    return sorted(found, key=lambda mark: (-len(mark), mark))


def added(marks, first, special=True):
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [{"id": first + place, "content": mark, **plain, "special": special} for place, mark in enumerate(marks)]


def byte_level(marks):
    """The byte-level tokenizer of the golden files."""
    tokenizer = json.loads(BASE.read_text())
    first = max(tokenizer["model"]["vocab"].values()) + 1
    tokenizer["added_tokens"] = added(marks, first)
    return tokenizer


def sentences(marks, normalizer, splitter):
    """A tokenizer with the letters of SentencePiece, and bytes for other letters."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), SPACE, SPACE * 2]
    pieces += [chr(code) for code in range(33, 127)] + ["th", "he", SPACE + "t", "in", "er", SPACE + "Hi"]
    merges = [[SPACE, SPACE], ["t", "h"], ["h", "e"], [SPACE, "t"], ["i", "n"], ["e", "r"], ["H", "i"]]
    pieces += ["Hi"]
    merges += [[SPACE, "Hi"]]
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
             "vocab": {piece: place for place, piece in enumerate(pieces)}, "merges": merges}
    marks = [mark for mark in marks if mark != "<unk>"]
    decoder = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": normalizer, "pre_tokenizer": splitter,
            "post_processor": None, "decoder": decoder, "model": model,
            "added_tokens": added(["<unk>"], 0) + added(marks, len(pieces))}


def replace(content=SPACE):
    return {"type": "Replace", "pattern": {"String": " "}, "content": content}


def metaspace(scheme):
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": scheme != "never"}


KINDS = {
    "byte level": byte_level,
    "Prepend and Replace": lambda marks: sentences(
        marks, {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, replace()]}, None),
    "Replace": lambda marks: sentences(marks, replace(), {
        "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}),
    "Metaspace always": lambda marks: sentences(marks, None, metaspace("always")),
    "Metaspace first": lambda marks: sentences(marks, None, metaspace("first")),
    "Metaspace never": lambda marks: sentences(marks, None, metaspace("never")),
}


def write(folder, template, texts=(), kind="byte level"):
    """Writes the files of a model with this template; returns their paths, and the ids of ENDS."""
    marks = marks_of(template, texts)
    tokenizer = KINDS[kind](list(dict.fromkeys([*marks, *NAMED.values()])))
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "tokenizer.json", folder / "tokenizer_config.json", folder / "chat_template.jinja"]
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **NAMED}
    for path, text in zip(paths, [json.dumps(tokenizer), json.dumps(config), template]):
        path.write_bytes(text.encode())
    ends = [token["id"] for token in tokenizer["added_tokens"] if token["content"] in ENDS]
    return {**dict(zip(("tokenizer", "config", "template"), map(str, paths))), "ends": ends}
