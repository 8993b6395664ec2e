"""The programs `host` and `gymkhana`, and the compiler's process."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

import gymkhana_rl as gk

PLUGINS = Path(os.environ.get("GYMKHANA_PLUGINS", "target/plugins")).absolute()
PROGRAM = "import sys; from gymkhana_rl._command_line import main; sys.exit(main())"
NAMES = ("host", "gymkhana")
# A build of the workspace has no scripts.
SCRIPTS = [Path(sysconfig.get_path("scripts")) / name for name in NAMES]
COMMAND = [str(SCRIPTS[1])] if SCRIPTS[1].exists() else [sys.executable, "-c", PROGRAM]


def folders(home: Path) -> dict[str, str]:
    """An environment whose user has these folders."""
    names = ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    return os.environ | {name: str(home / name) for name in names}


def gymkhana(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=folders(home), cwd=home)


def done(*arguments: str, home: Path) -> str:
    """What a command prints that succeeds."""
    ended = gymkhana(*arguments, home=home)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_scripts_are_installed_with_the_package():
    try:
        metadata.distribution("gymkhana-rl")
    except metadata.PackageNotFoundError:
        assert not any(script.exists() for script in SCRIPTS), "the package is that of the workspace's build"
    else:
        assert all(script.exists() for script in SCRIPTS)


def started(name: str, *arguments: str, packages: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script of this name as pip writes it, with a folder of packages after those of Python."""
    (home / name).write_text("import sys\nfrom gymkhana_command import main\nsys.exit(main())\n")
    source = f"import runpy, sys; sys.path.append({str(packages)!r}); runpy.run_path(sys.argv[0])"
    code = f"import sys; sys.argv = {[str(home / name), *arguments]!r}; {source}"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=folders(home), cwd=home)


@pytest.mark.parametrize("name", NAMES)
def test_both_names_run_the_program_of_the_trainer_where_it_is_installed(tmp_path, name):
    program = tmp_path / "packages" / "gymkhana_rl_train" / "bin" / "host"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s;" trainer "$@"\nexit 3\n')
    without = started(name, "--help", packages=tmp_path / "packages", home=tmp_path)
    assert without.returncode == 0, "a file that is not executable is no program"
    assert f"Usage: {name} " in without.stdout
    program.chmod(0o755)
    done = started(name, "run", "a b", packages=tmp_path / "packages", home=tmp_path)
    assert (done.returncode, done.stdout) == (3, "trainer;run;a b;")


def test_a_command_that_needs_a_model_names_the_package_of_the_trainer(tmp_path):
    ended = gymkhana("generate", "no-model", "hello", home=tmp_path)
    assert ended.returncode == 2, ended.stderr
    # A build of the workspace knows a libtorch.
    if SCRIPTS[0].exists():
        assert "pip install gymkhana-rl-train" in ended.stderr


def test_a_created_plugin_is_played_before_it_is_built(tmp_path):
    classes = pytest.importorskip("sdk_classes")
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk" / "pyproject.toml").touch()
    arguments = ["plugin", "new", "my-game", "--kind", "environment", "--lang", "python", "--sdk", "sdk"]
    assert "created your-name/my-game in my-game" in done(*arguments, home=tmp_path)
    assert 'name = "my-game"' in (tmp_path / "my-game" / "pyproject.toml").read_text()
    spec = importlib.util.spec_from_file_location("my_game", tmp_path / "my-game" / "plugin.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    created, template = (gk.local(kind).env(seed=3) for kind in (module.Guess, classes.Guess))
    assert created.reset() == template.reset()
    again = gymkhana(*arguments, home=tmp_path)
    assert again.returncode == 2 and "already exists" in again.stderr, again


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Publishes FrozenLake in a registry and serves it to the user of the folder; returns the URL."""
    root, publisher = (done("keygen", f"{name}.key", home=tmp_path).strip() for name in ("root", "publisher"))
    done("registry", "init", "files", "--root", "root.key", home=tmp_path)
    done("registry", "grant", "files", "gymkhana", publisher, "--root", "root.key", home=tmp_path)
    config = f'[registries.main]\n{{}}\nroot = "{root}"\n\n[namespaces]\ngymkhana = "main"\n'
    (tmp_path / "gymkhana-registries.toml").write_text(config.format('folder = "files"'))
    keys = ["--key", "publisher.key", "--root", "root.key"]
    done("publish", str(PLUGINS / "frozen-lake.wasm"), *keys, home=tmp_path)
    (tmp_path / "gymkhana-registries.toml").unlink()
    command = [*COMMAND, "registry", "serve", "files", "--root", "root.key", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=folders(tmp_path), cwd=tmp_path)
    try:
        assert server.stderr is not None
        url = server.stderr.readline().split()[-1]
        users = tmp_path / "XDG_CONFIG_HOME" / "gymkhana" / "gymkhana-registries.toml"
        users.parent.mkdir(parents=True)
        users.write_text(config.format(f'url = "{url}"'))
        yield url
    finally:
        server.kill()
        server.communicate()


def test_a_plugin_of_a_served_registry_is_added_and_loaded(tmp_path, registry):
    assert registry.startswith("http://127.0.0.1:")
    (tmp_path / "gymkhana.toml").write_text("[plugins]\n")
    done("add", "gymkhana/frozen-lake", home=tmp_path)
    lock = (tmp_path / "gymkhana.lock").read_text()
    program = "import gymkhana_rl as gk; p = gk.load('gymkhana/frozen-lake'); print(p.version, p.digest)"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, capture_output=True, text=True, check=False, env=folders(tmp_path), cwd=tmp_path)
    assert loaded.returncode == 0, loaded.stderr
    version, digest = loaded.stdout.split()
    assert version in lock and digest in lock
    missing = gymkhana("add", "gymkhana/frozen-lakes", home=tmp_path)
    assert missing.returncode != 0 and "frozen-lakes" in missing.stderr, missing


def not_webassembly(folder: Path) -> str:
    (folder / "text.wasm").write_text("no component")
    return "text.wasm"


def broken(folder: Path) -> str:
    (folder / "broken.wasm").write_bytes((PLUGINS / "frozen-lake.wasm").read_bytes()[:5000])
    return "broken.wasm"


@pytest.mark.parametrize(
    "source", [lambda _: "nothing.wasm", lambda _: "nobody/nothing@^1", lambda _: "frozen-lake", not_webassembly, broken]
)
def test_errors_have_the_words_of_the_program(source: Callable[[Path], str], tmp_path, monkeypatch):
    for name, value in folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gk.LoadError) as raised:
        gk.load(source(tmp_path))
    refused = gymkhana("plugin", "inspect", source(tmp_path), home=tmp_path)
    assert refused.returncode == 2
    # The package's messages have one line.
    words = re.sub(r"\n  because: ", ": ", refused.stderr)
    hint = f"hint: {raised.value.hint}\n" if raised.value.hint else ""
    assert words == f"error: {raised.value}\n{hint}"


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


def test_a_component_that_is_none_is_refused_by_the_compilers_process():
    with pytest.raises(gk.LoadError):
        gk.load(b"\0asm" + bytes(100))
