#!/usr/bin/env python3
"""Tool calls as published chat templates render them: make_tool_call_goldens.py TEMPLATES FILE reads TEMPLATES/NAME.jinja
and writes FILE, which is committed as tests/golden/chat/tool_calls.json.

The templates are not part of this repository. llama.cpp keeps them in `models/templates`, which its Python package
`llama-cpp-python` carries in its source archive."""
import json
import pathlib
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

ADD = {"name": "add", "arguments": {"a": 1, "b": -2.5}}
NESTED = {
    "name": "write_file",
    "arguments": {
        "path": "notes/ü – 中文.txt",
        "text": 'if (x) { y("}") }\n<b>&amp; ```',
        "options": {"mode": {"append": True}, "tags": ["a", "{", None]},
        "force": False,
    },
}
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    },
}
NO_ARGUMENTS = {"name": "now", "arguments": {}}
REPLIES = [
    ("", [ADD]),
    ("", [NESTED]),
    ("", [NO_ARGUMENTS]),
    ("", [ADD, NESTED, NO_ARGUMENTS]),
    ("Let me add these.", [ADD]),
]
# The template, its format, the text after a reply, and the form of arguments in the template.
TEMPLATES = [
    ("Qwen-Qwen2.5-7B-Instruct", "hermes", "<|im_end|>", dict),
    ("Qwen-Qwen3-0.6B", "hermes", "<|im_end|>", dict),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", "<|im_end|>", dict),
    ("meta-llama-Llama-3.1-8B-Instruct", "llama3-json", "<|eot_id|>", dict),
    ("meta-llama-Llama-3.2-3B-Instruct", "llama3-json", "<|eot_id|>", dict),
    ("mistralai-Mistral-Nemo-Instruct-2407", "mistral", "</s>", dict),
    ("Mistral-Small-3.2-24B-Instruct-2506", "mistral", "</s>", dict),
    ("unsloth-mistral-Devstral-Small-2507", "mistral", "</s>", str),
    ("Qwen3-Coder", "qwen3-coder-xml", "<|im_end|>", dict),
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek", "<｜end▁of▁sentence｜>", dict),
    ("deepseek-ai-DeepSeek-V3.1", "deepseek", "<｜end▁of▁sentence｜>", dict),
]


def dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def refuse(message):
    raise jinja2.TemplateError(message)


def renderer(path, end):
    """Renders like transformers."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = dumps
    environment.globals.update(raise_exception=refuse, strftime_now=lambda form: "26 Jul 2024")
    template = environment.from_string(path.read_text())
    return lambda messages, prompt: template.render(
        messages=messages, tools=[TOOL], add_generation_prompt=prompt, bos_token="", eos_token=end
    )


def message(content, calls, arguments):
    as_wanted = (lambda value: dumps(value)) if arguments is str else (lambda value: value)
    calls = [
        {
            "id": f"call0000{number}",
            "type": "function",
            "function": {"name": call["name"], "arguments": as_wanted(call["arguments"])},
        }
        for number, call in enumerate(calls)
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def main(templates, file):
    goldens = []
    for name, form, end, arguments in TEMPLATES:
        render = renderer(templates / f"{name}.jinja", end)
        question = {"role": "user", "content": "?"}
        for content, calls in REPLIES:
            # DeepSeek's templates recognise a reply without text by its missing content.
            given = content or (None if form == "deepseek" else "")
            try:
                whole = render([question, message(given, calls, arguments)], False)
            except jinja2.TemplateError as error:
                print(f"{name} refuses {len(calls)} calls: {error}")
                continue
            prompt = render([question], True)
            # Reasoning models' prompts end with a mark that a finished turn does not have.
            start = len(prompt) if whole.startswith(prompt) else len(render([question], False))
            reply = whole[start:].split(end)[0].removeprefix("<｜Assistant｜>")
            shown = content if content and content in reply else ""
            goldens.append({"template": name, "format": form, "reply": reply, "message": shown, "calls": calls})
    lines = ",\n".join(dumps(golden) for golden in goldens)
    file.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
