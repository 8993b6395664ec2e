"""SkyRL's Tinker server on the CPU, with a tiny Qwen3 model of random weights."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

REPO = Path(__file__).parents[3]
# The engine starts in this time, and compiles in a minute.
SECONDS = 300

# The server starts its engine by `uv run FLAGS -m MODULE ARGUMENTS`, and finds the flags in its parent's command line.
UV = f"""#!/bin/bash
while [ $# -gt 0 ] && [ "$1" != "-m" ]; do shift; done
"{sys.executable}" "$@" &
child=$!
trap 'kill -TERM $child' TERM INT
wait $child
wait $child
"""


def write_model(folder):
    """A model with the byte tokenizer and the chat template of a tiny model of the host."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(7)
    config = Qwen3Config(
        vocab_size=264, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=1024, tie_word_embeddings=True, eos_token_id=258,
        pad_token_id=256, rope_theta=10000.0,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


def host(folder, *arguments, **options):
    """Runs the host in a folder."""
    return subprocess.run(
        [os.environ["GYMKHANA_HOST"], *arguments], cwd=folder, capture_output=True, text=True, check=False, **options
    )


class Server:
    """A server, which a test may end."""

    def __init__(self, folder, model):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        programs = folder / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "uv").write_text(UV)
        (programs / "uv").chmod(0o755)
        command = [
            programs / "uv", "run", "-m", "skyrl.tinker.api", "--base-model", model, "--backend", "jax",
            "--backend-config", '{"max_lora_adapters": 8, "max_lora_rank": 32, "sample_max_num_sequences": 16}',
            "--database-url", f"sqlite:///{folder}/tinker.db", "--checkpoints-base", folder / "checkpoints",
            "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2],
        ]
        environment = {
            **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"
        }
        self.log = (folder / "server.log").open("a")
        self.process = subprocess.Popen(
            [str(part) for part in command], env=environment, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.wait()

    def wait(self):
        for _ in range(SECONDS):
            try:
                urllib.request.urlopen(f"{self.url}/api/v1/get_server_capabilities", timeout=5).read()
                return
            except (urllib.error.URLError, OSError):
                assert self.process.poll() is None, "the server has ended"
                time.sleep(1)
        raise TimeoutError("the server did not start")

    def kill(self):
        """Ends the server and its engine."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Folder of the model."""
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    tiny = folder / "tiny"
    run = (
        'success = "environment.success"\n[policy]\ntiny = { layers = 1, width = 32, heads = 2, kv_heads = 2, mlp = 64, '
        'context = 256 }\n[evaluation]\ntasks = 1\n[[stages]]\nkind = "sft"\nsteps = 1\nbatch = 1\n'
    )
    (folder / "tiny.toml").write_text(run)
    plugin = REPO / "target/plugins/frozen-lake.wasm"
    host(folder, "run", "--plugins", str(plugin), "tiny.toml", "--out", str(tiny)).check_returncode()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_text((tiny / "checkpoints/0-000001" / name).read_text())
    return folder


@pytest.fixture
def start(tmp_path, model):
    """Starts a server."""
    servers = []

    def started():
        servers.append(Server(tmp_path, model))
        return servers[-1]

    yield started
    for server in servers:
        if server.process.poll() is None:
            server.kill()
        server.log.close()
