#!/usr/bin/env python3
"""Tokens of texts by llama.cpp.

llama_cpp.py FILE.gguf reads a list of texts as JSON and writes a list of ids of each."""
import json
import os
import subprocess
import sys
import urllib.request

# llama.cpp waits busily for its threads.
SECONDS = 300


def tokens(file, texts):
    """Tokens of each text, without special tokens at its beginning and end."""
    command = [sys.executable, __file__, str(file)]
    run = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


def served(file):
    """A server of llama.cpp with one thread in this process."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = file
    settings.n_ctx, settings.n_parallel, settings.cache_ram_mib = 256, 1, 0
    settings.warmup = settings.fit_params = False
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(settings)


def ask(server, text):
    body = json.dumps({"content": text, "add_special": False, "parse_special": True}).encode()
    request = urllib.request.Request(f"{server.listening_address}/tokenize", body, {"content-type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=30).read())["tokens"]


if __name__ == "__main__":
    server = served(sys.argv[1])
    print(json.dumps([ask(server, text) for text in json.load(sys.stdin)]), flush=True)
    # The end of the server may wait for ever.
    os._exit(0)
