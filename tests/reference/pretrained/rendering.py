"""Conversations as text and tokens, beside transformers."""
import json
import subprocess

from transformers import AutoTokenizer

REPLIES = ["Yes.", "Ünïcödé 🙂", "x = 3\n\ny = 4", "", "1234567"]
USERS = ["What is 6*7?", "  spaces  ", "中文\n", "<b>", "def f():\n\treturn 1"]


def conversations():
    for first, user in enumerate(USERS):
        for second, reply in enumerate(REPLIES):
            messages = [{"role": "user", "content": user}]
            if second % 2:
                messages.insert(0, {"role": "system", "content": f"Rule {first}."})
            yield messages
            yield [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": USERS[second]}]


def check(program, folder):
    """Text and tokens of every conversation."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = folder / "template.jinja"
    template.write_text(json.loads((folder / "tokenizer_config.json").read_text())["chat_template"])
    paths = {"tokenizer": str(folder / "tokenizer.json"), "config": str(folder / "tokenizer_config.json"),
             "template": str(template), "ends": [tokenizer.eos_token_id], "tools": [], "switches": {}}
    given = list(conversations())
    lines = "".join(json.dumps({**paths, "messages": messages}) + "\n" for messages in given)
    run = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    template.unlink()
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    for messages, answer in zip(given, answers, strict=True):
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        tokens = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert answer["text"] == text, f"{answer} is not {text!r}"
        assert answer["tokens"] == tokens, f"{messages}: {answer['tokens']} is not {tokens}"
    print(f"chat: texts and tokens of {len(given)} conversations are equal")
