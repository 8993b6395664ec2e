"""The program `gymkhana`, and the compiler's process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = Path(os.environ.get("GYMKHANA_PLUGINS", "target/plugins")).absolute()
PROGRAM = "import sys; from gymkhana_rl._command_line import main; sys.exit(main())"


def gymkhana(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    folders = {name: str(home / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | folders, cwd=home)


def test_plugins_are_inspected_and_tested(tmp_path):
    lake = str(PLUGINS / "frozen-lake.wasm")
    inspected = gymkhana("plugin", "inspect", lake, home=tmp_path)
    assert inspected.returncode == 0 and "gymkhana/frozen-lake" in inspected.stdout, inspected
    tested = gymkhana("plugin", "test", lake, home=tmp_path)
    assert tested.returncode == 0, tested


def test_mistakes_have_the_codes_of_the_host(tmp_path):
    missing = gymkhana("plugin", "inspect", "nothing.wasm", home=tmp_path)
    assert missing.returncode == 2 and "hint: " in missing.stderr, missing
    unknown = gymkhana("plugn", home=tmp_path)
    assert unknown.returncode == 2 and "plugin" in unknown.stderr, unknown
    assert gymkhana("--help", home=tmp_path).returncode == 0


def test_training_is_refused_with_a_hint(tmp_path):
    refused = gymkhana("run", "run.toml", "--plugins", "a.wasm", "--out", "out", home=tmp_path)
    assert refused.returncode == 2 and "hint: " in refused.stderr, refused


def test_a_plugin_is_compiled_in_a_process_of_its_own(program, tmp_path):
    """The compiler is a child of the program that loads a plugin for the first time."""
    text = f"""
    import os, threading, time
    os.environ["XDG_CACHE_HOME"] = {str(tmp_path)!r}
    seen = set()
    def watch():
        while not done:
            for process in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{{process}}/cmdline") as line, open(f"/proc/{{process}}/status") as status:
                        if f"PPid:\\t{{os.getpid()}}\\n" in status.read():
                            seen.add(line.read())
                except OSError:
                    pass
            time.sleep(0.002)
    done = False
    watcher = threading.Thread(target=watch)
    watcher.start()
    load("frozen-lake")
    done = True
    watcher.join()
    print(any("_compiler.py" in line and "__compile-plugin" in line for line in seen))
    """
    assert program(text).split() == ["True"]


def test_a_component_that_is_none_is_refused_by_the_compilers_process(tmp_path):
    import gymkhana_rl as gk

    with pytest.raises(gk.LoadError):
        gk.load(b"\0asm" + bytes(100))
