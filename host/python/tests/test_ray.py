"""Workers as actors of Ray, which play a run of the program `host`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time

import pytest

from conftest import PLUGINS

HOST = os.environ.get("GYMKHANA_HOST", "")
# `cargo xtask` fetches it.
NATS = shutil.which("nats-server", path=os.pathsep.join([os.environ.get("GYMKHANA_SERVERS", ""), os.environ["PATH"]]))

RUN = """
success = "environment.success"
limits = { turns = 4, reply_tokens = 4 }
evaluation = { tasks = 2, sampled = false }
stages = [{ kind = "rl", steps = 2, groups = 4, group_size = 2 }]

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 1024 }
"""


@pytest.fixture
def bus(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--jetstream", "--addr", "127.0.0.1", "--port", str(port), "--store_dir", str(tmp_path / "bus")]
    server = subprocess.Popen([NATS, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.mark.skipif(not (HOST and NATS), reason="GYMKHANA_HOST names no program, or there is no nats-server")
def test_actors_of_ray_play_the_groups_of_a_run(bus, tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from gymkhana_rl.ray import start

    (tmp_path / "run.toml").write_text(RUN)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        workers = start(bus, 2, cpus=0.5, arguments=["--cache", str(tmp_path / "cache")])
        lake = str(PLUGINS / "frozen-lake.wasm")
        out = tmp_path / "out"
        arguments = ["run", str(tmp_path / "run.toml"), "--plugins", lake, "--out", str(out), "--workers", bus]
        done = subprocess.run([HOST, *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        # Two evaluations of two tasks, and two steps of four groups of two episodes.
        assert "groups: 12, delivered again: 0" in done.stderr
        assert "20 episodes in " in done.stdout
        workers.wait(timeout_s=60)
    finally:
        ray.shutdown()
