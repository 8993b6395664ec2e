"""The package in programs that run Python for others: pytest-xdist, Jupyter and Ray."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conftest import PLUGINS


def without_times(record):
    return {name: value for name, value in record.items() if name not in ("costs", "timing")}


def load_line(name: str, **limits: float) -> str:
    return f"gk.load({str(PLUGINS / name)!r} + '.wasm', **{limits!r})"


def test_workers_of_xdist_play_the_same_episode(tmp_path):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    (tmp_path / "test_played.py").write_text(f"""
import os, pathlib, pytest, gymkhana_rl as gk

@pytest.mark.parametrize("repeat", range(8))
def test_play(repeat):
    env = {load_line("frozen-lake")}.env(seed=3)
    env.reset()
    while not env.step(env.advise())[2]:
        pass
    folder = pathlib.Path({str(tmp_path)!r})
    (folder / f"{{repeat}}-{{os.getpid()}}.record").write_text(repr({{**env.record(), "costs": 0, "timing": 0}}))
""")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "8 passed" in done.stdout, done.stdout + done.stderr
    files = list(tmp_path.glob("*.record"))
    assert len({file.stem.split("-")[1] for file in files}) == 2, "two worker processes"
    assert len({file.read_text() for file in files}) == 1


def test_a_notebook_plays_and_survives_a_hostile_guest():
    manager = pytest.importorskip("jupyter_client.manager", reason="jupyter-client is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    printed: list[str] = []

    def output(message):
        printed.append(message["content"].get("text") or "\n".join(message["content"].get("traceback", [])))

    def run(cell: str) -> str:
        printed.clear()
        reply = client.execute_interactive(cell, timeout=60, output_hook=output)["content"]
        return "".join(printed) if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"

    try:
        assert run(f"import gymkhana_rl as gk\nenv = {load_line('frozen-lake')}.env(seed=3)\nenv.reset();") == ""
        assert run("print(env.step(env.advise())[1])") == "0.0\n"
        # A notebook's loop runs already.
        assert run("print((await env.astep(env.advise()))[1])") == "0.0\n"
        hostile = load_line("guest-hostile-environment", timeout_s=0.2)
        said = run(f"bad = {hostile}.env(options={{'behaviour': 'loop-step'}})\nbad.reset()\nbad.step('yes')")
        assert said.startswith("PluginError: "), said
        assert run("print(env.step(env.advise())[1])") == "0.0\n"
        kernel.restart_kernel(now=False)
        client.wait_for_ready(timeout=60)
        assert run("print('env' in globals())") == "False\n"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def test_an_actor_of_ray_continues_a_live_episode(lake):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:

        @ray.remote
        class Player:
            def __init__(self, env):
                self.env = env

            def finish(self):
                while not self.env.step(self.env.advise())[2]:
                    pass
                return self.env.record()

        env = lake.env(seed=3)
        env.reset()
        env.step(env.advise())
        players = [Player.remote(env) for _ in range(2)]
        records = ray.get([player.finish.remote() for player in players], timeout=120)
        while not env.step(env.advise())[2]:
            pass
        assert [without_times(record) for record in records] == [without_times(env.record())] * 2
    finally:
        ray.shutdown()
