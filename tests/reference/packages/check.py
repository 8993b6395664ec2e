"""Builds a plugin for each package of packages.toml, compares its answers, and checks the page python-packages.md.

`cargo xtask test --reference packages` runs it in a Python with xtask/requirements/packages.txt. `--write` writes the
page; `--only NAME …` checks some packages.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import page
from played import Played

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
SEEDS = (1, 2, 3)
TIMES = 20
"""Repetitions of the measured call."""


def module(package: dict[str, Any]) -> str:
    """Name of the module of a package's plugin."""
    return package["name"].lower().replace("-", "_") + "_plugin"


def environment() -> dict[str, str]:
    """Environment in which `host` finds this Python and the SDK of this repository."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    sdk = REPOSITORY / "sdk/python/src"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(sdk), "VIRTUAL_ENV": sys.prefix}


class Failed(Exception):
    """A package that does not do what packages.toml says; the message says what was seen."""


def run(command: list[Any]) -> str:
    """Output of a command. Raises `Failed` with what it said."""
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment(), check=False)
    if result.returncode != 0:
        raise Failed(f"`{' '.join(map(str, command))}` failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def write_project(package: dict[str, Any], folder: Path) -> None:
    """Writes the folder of a package's plugin."""
    shutil.copy(HERE / "plugins" / f"{module(package)}.py", folder)
    lines = [
        "[project]",
        f'name = "packages-{package["name"].lower()}"',
        'version = "0.1.0"',
        f'description = "Proof of {package["name"]}"',
        'license = "Apache-2.0"',
        f"dependencies = [{json.dumps(package['name'])}]",
        "[tool.gymkhana]",
        'namespace = "reference"',
        f'{package["kind"]} = "{module(package)}:Proof"',
        f"placeholders = {json.dumps(package.get('placeholders', []))}",
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines))


def natively(package: dict[str, Any], members: list[str]) -> dict[str, str | None]:
    """Answers of the plugin's class in ordinary CPython by member; None for those that depend on the hash seed."""
    answers = []
    for seed in ("1", "2"):
        command = [sys.executable, "-B", __file__, "--natively", package["name"]]
        given = json.dumps(members)
        variables = {**environment(), "PYTHONHASHSEED": seed}
        result = subprocess.run(command, input=given, capture_output=True, text=True, env=variables, check=False)
        if result.returncode != 0:
            raise Failed(f"{package['name']} fails in CPython: {result.stderr}")
        answers.append(json.loads(result.stdout.splitlines()[-1]))
    return {member: answer if answers[1][member] == answer else None for member, answer in answers[0].items()}


def answer_natively(package: dict[str, Any]) -> None:
    """Prints the answers to the members on standard input, or for an empty list to all members and seeds."""
    from gymkhana_sdk import Call
    from gymkhana_sdk._packages.native import Placeholders
    from gymkhana_sdk.testing import open_session

    sys.meta_path.insert(0, Placeholders(package.get("placeholders", [])))
    sys.path.insert(0, str(HERE / "plugins"))
    plugin = __import__(module(package))
    members = json.load(sys.stdin)
    members = members or [f"{name} {seed}" for name in plugin.members() for seed in SEEDS]
    session = open_session(plugin.Proof, seed=0)
    answers = {}
    for member in members:
        # Some members print.
        with contextlib.redirect_stdout(io.StringIO()):
            answer = session.call(Call.of("member", member=member))
        answers[member] = f"failed: {answer.content}" if answer.failed else answer.content
    print(json.dumps(answers))


def asking(member: str) -> str:
    """Line that asks a tool for a member."""
    return "call member " + json.dumps({"member": member})


def compare(played: Played, package: dict[str, Any]) -> dict[str, str]:
    """Reasons by member that does not answer as in CPython; empty for others. All members are in the result."""
    listed = package.get("compared", [])
    expected = natively(package, listed)
    found: dict[str, str] = {}
    for number, member in enumerate(listed or expected):
        name = member if listed else member.split(" ")[0]
        # A call that the sandbox ends is answered in several lines.
        mark = f"end-of-{number}"
        answer = played.say_then(asking(member), asking(f"{mark} en_US 1" if listed else f"{mark} 1"), mark)
        reason, native = "", expected[member]
        if native is None:
            reason = "differs between runs of CPython too"
        elif answer.startswith("failed: "):
            in_both = "in CPython too: " if native.startswith("failed: ") and "placeholder" not in answer else ""
            reason = in_both + answer.removeprefix("failed: ")
        elif not answer.startswith(("[", "{")) and not listed:
            # The sandbox ended the call.
            reason = answer
        elif answer != native:
            print(f"{member}: {answer[:1000]}\nin CPython: {native[:1000]}")
            reason = "differs from CPython, because of its order of files or of 64-bit hashes"
        found[name] = found.get(name) or reason
    return found


def check(package: dict[str, Any], host: Path, folder: Path) -> dict[str, Any]:
    """Builds, tests and plays a package's plugin. Returns what the page shows."""
    write_project(package, folder)
    component = folder / "plugin.wasm"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run([host, "plugin", "build", folder, "--out", component])
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    run([host, "plugin", "test", component, "--steps", "100"])
    row: dict[str, Any] = {"bytes": component.stat().st_size, "build_wall": wall, "build_cpu": cpu, "members": {}}
    lines = package.get("lines", [])
    with Played(host, component, package["kind"], package.get("functions", 1)) as played:
        for line, expected in zip(lines, package.get("answers", []), strict=True):
            answer, _ = played.say(line)
            if answer != expected:
                raise Failed(f"{package['name']}: `{line}` is answered by `{answer}`, not by `{expected}`")
        if not lines:
            row["members"] = compare(played, package)
    wrong = {name: reason for name, reason in row["members"].items() if reason and not package.get("members")}
    if wrong:
        raise Failed(f"{package['name']}: {wrong}")
    row.update(measure(package, host, component, row["members"]))
    return row


def measure(package: dict[str, Any], host: Path, component: Path, members: dict[str, str]) -> dict[str, float]:
    """Seconds of the first call of a fresh instance and of the median of later calls, and the instance's bytes."""
    working = next((name for name, reason in members.items() if not reason), "")
    member = working if " " in working else f"{working} 1"
    line = package["lines"][0] if package.get("lines") else asking(member)
    with Played(host, component, package["kind"], package.get("functions", 1)) as played:
        first = played.say(line)[1]
        # A game of chess goes on.
        again = package.get("again", line)
        later = statistics.median(played.say(again)[1] for _ in range(TIMES))
    memory = run([host, "plugin", "bench", component, "--times", "20", "--json"]).splitlines()[0]
    return {"first": first, "step": later, "memory": json.loads(memory)["memory_bytes"]}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", type=Path, help="the program `host`")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="names of packages")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--natively", metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    document = tomllib.loads((HERE / "packages.toml").read_text())
    if arguments.natively:
        answer_natively(next(each for each in document["package"] if each["name"] == arguments.natively))
        return 0
    shown = REPOSITORY / "docs/reference/python-packages.md"
    failures = []
    rows = page.read(shown)
    for package in document["package"]:
        name = package["name"]
        if arguments.only and name not in arguments.only:
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                row = check(package, arguments.host.resolve(), Path(folder))
        except Failed as failure:
            failures.append(name)
            print(f"FAILED {name}: {failure}", flush=True)
            continue
        members = row["members"] if package.get("members") else {}
        works = sum(1 for reason in members.values() if not reason)
        count = f", {works} of {len(members)} members work" if members else ""
        print(f"{name} {metadata.version(name)}: {page.measured(row)}{count}", flush=True)
        if arguments.write:
            rows = page.read(shown)
        rows.update(page.rows(package, row, metadata.version(name)))
        if arguments.write:
            shown.write_text(page.render(document, rows))
    text = page.render(document, rows)
    if arguments.write:
        shown.write_text(text)
    if page.without_measurements(shown.read_text()) != page.without_measurements(text):
        print(f"`{shown.relative_to(REPOSITORY)}` differs from what was found\nhint: run again with `--write`")
        return 1
    print(f"{len(failures)} packages failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
