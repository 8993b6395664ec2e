#!/usr/bin/env python3
"""Tokens of conversations in transformers with `chat_template.jinja`: make_chat_goldens.py FOLDER writes
FOLDER/chat/{tokenizer.json, tokenizer_config.json, chat_template.jinja, golden.json}."""
import json
import pathlib
import shutil
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
TOOL = {
    "name": "calculate",
    "description": 'Exact "arithmetic", as ½ + 3 > 2 & more.',
    "parameters": {
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "such as 6*7"}, "digits": {"type": "integer"}},
        "required": ["expression"],
    },
}
CALL = '<tool_call>\n{"name": "calculate", "arguments": {"expression": "6*7"}}\n</tool_call>'
CONVERSATIONS = [
    {"messages": [("user", "How many?")], "tools": []},
    {"messages": [("system", "Only numbers."), ("user", "Zwölf mal 7 – wie viel?\n\n")], "tools": [TOOL]},
    {
        "messages": [("user", "6*7 and 1/2?"), ("assistant", CALL), ("tool", "42"), ("tool", "1/2"), ("assistant", "42, 1/2")],
        "tools": [TOOL],
    },
    {"messages": [("user", "a"), ("assistant", "b"), ("user", " c "), ("assistant", "d"), ("user", "e")], "tools": []},
]


def byte_alphabet():
    """Characters of the 256 bytes in byte-level vocabularies, by byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def tokenizer():
    """Bytes, a few merges, and control tokens of both kinds: special tokens and ordinary added ones."""
    alphabet = byte_alphabet()
    vocabulary = {character: byte for byte, character in enumerate(alphabet)}
    merges = [("a", "s"), ("i", "m"), ("s", "t"), ("as", "s"), ("o", "l"), (alphabet[32], "t")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    core.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKS])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.chat_template = (HERE / "chat_template.jinja").read_text()
    return made


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizer()
    made.save_pretrained(folder)
    shutil.copy(HERE / "chat_template.jinja", folder / "chat_template.jinja")
    golden = []
    for conversation in CONVERSATIONS:
        messages = [{"role": role, "content": content} for role, content in conversation["messages"]]
        tools = [{"type": "function", "function": tool} for tool in conversation["tools"]]
        # A prompt before each message of the assistant, as in a growing rollout.
        ends = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        ends += [] if messages[-1]["role"] == "assistant" else [len(messages)]
        prompts = [
            made.apply_chat_template(
                messages[:end], tools=tools or None, add_generation_prompt=True, tokenize=True, return_dict=False
            )
            for end in ends
        ]
        golden.append({"messages": conversation["messages"], "tools": conversation["tools"], "prompts": prompts})
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) / "chat")
