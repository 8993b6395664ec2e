"""Fixtures: plugins from the folder that GYMKHANA_PLUGINS names, and programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import gymkhana_rl as gk
from model_server import Model, served, write_model

# Set where everything is installed.
NO_SKIPS = "GYMKHANA_NO_SKIPS" in os.environ

PLUGINS = Path(os.environ.get("GYMKHANA_PLUGINS", "target/plugins")).absolute()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run that skipped tests which must run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if NO_SKIPS and reporter else []
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"\n{len(skipped)} tests were skipped, and GYMKHANA_NO_SKIPS is set", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def load() -> Callable[..., gk.Plugin]:
    """Loads a plugin by the name of its file."""
    return lambda name, **limits: gk.load(PLUGINS / f"{name}.wasm", **limits)


@pytest.fixture(scope="session")
def lake(load: Callable[..., gk.Plugin]) -> gk.Plugin:
    return load("frozen-lake")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a program in its own process and returns what it prints. `load(name, **limits)` is defined in it."""
    head = f"""
import sys, gymkhana_rl as gk
def load(name, **limits): return gk.load({str(PLUGINS)!r} + "/" + name + ".wasm", **limits)
"""

    def run(text: str, *, options: tuple[str, ...] = (), seconds: float = 120) -> str:
        file = tmp_path_factory.mktemp("program") / "program.py"
        file.write_text(head + textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, *options, str(file)], capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without weights."""
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Model]]:
    """Starts a server with replies of a function."""
    with ExitStack() as stack:
        yield lambda reply, **settings: stack.enter_context(served(Model(reply, **{"root": folder, **settings})))
