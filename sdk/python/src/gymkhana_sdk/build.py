"""Builds a plugin from a folder: `python -m gymkhana_sdk.build DIR --out FILE`.

The folder contains `pyproject.toml` and the modules that it names, beside it or in `src`. componentize-py bundles them
with CPython. It imports modules at build time; modules that are not imported at build time are missing at run time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib import util
from pathlib import Path
from typing import Any

from . import contract
from .manifest import FREE, BuildError, Project, stamp

COMPONENTIZE = "componentize-py==0.25.1"
"""Compiler version that this SDK is tested with."""

_WORLD = "plugin-to-build"
_ENTRY = "gymkhana_entry"


def build(folder: Path, out: Path) -> None:
    """Builds the project in `folder` into the component `out`. Raises `BuildError` for mistakes of the author."""
    project = Project.read(folder)
    if util.find_spec("componentize_py") is None:
        raise BuildError(
            f"componentize-py is missing, which bundles a plugin with CPython; run `{sys.executable} -m pip install "
            f"{COMPONENTIZE}`"
        )
    places = [place for place in (folder / "src", folder) if place.is_dir()]
    paths = [str(place.resolve()) for place in (*places, Path(__file__).parent.parent)]
    found = _abilities(project, paths)
    manifest = project.manifest(found["range"])
    with tempfile.TemporaryDirectory() as made:
        component = _componentize(Path(made), project, found["interfaces"], paths)
    out.parent.mkdir(parents=True, exist_ok=True)
    # The rename is atomic: a concurrent reader sees the old or the new component, never a partial one.
    temporary = out.with_name(f"{out.name}.{os.getpid()}.tmp")
    temporary.write_bytes(stamp(component, manifest))
    temporary.replace(out)


def _abilities(project: Project, paths: list[str]) -> dict[str, Any]:
    """Output of `abilities` for the project's classes, run in a separate process."""
    words = [f"{kind}={place}" for kind, place in project.classes.items()]
    path = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "gymkhana_sdk.abilities", *words]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    if result.returncode == 2:
        raise BuildError(result.stderr.strip())
    if result.returncode != 0:
        raise BuildError(f"Python ended while it imported the plugin's modules:\n{result.stderr.strip()}")
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def _componentize(made: Path, project: Project, interfaces: list[str], paths: list[str]) -> bytes:
    wit = made / "wit"
    wit.mkdir()
    for file in contract.FOLDER.glob("*.wit"):
        (wit / file.name).write_bytes(file.read_bytes())
    imports = ["types", *FREE, *project.capabilities]
    (wit / f"{_WORLD}.wit").write_text(contract.world(_WORLD, imports, interfaces))
    (made / "entry").mkdir()
    (made / "entry" / f"{_ENTRY}.py").write_text(_entry(project))
    component = made / "plugin.wasm"
    arguments = ["-q", "-d", str(wit), "-w", _WORLD, "componentize"]
    for path in (str(made / "entry"), *paths):
        arguments += ["-p", path]
    run = "import sys; from componentize_py import script; sys.argv[0] = 'componentize-py'; script()"
    command = [sys.executable, "-c", run, *arguments, _ENTRY, "-o", str(component)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0 or not component.is_file():
        # The rest is componentize-py's own backtrace.
        said = (result.stderr + result.stdout).split("\n\nCaused by:")[0].strip()
        raise BuildError(f"componentize-py rejected the plugin (modules are imported at build time):\n{said}")
    return component.read_bytes()


def _entry(project: Project) -> str:
    """Source of the module that componentize-py exports. It imports the author's modules first."""
    lines = []
    for kind, place in project.classes.items():
        module, name = place.split(":")
        lines.append(f"from {module} import {name} as _{kind}")
    for kind in project.classes:
        lines.append(f"from gymkhana_sdk._component import {kind} as _{kind}_exports")
        lines.append(f"globals().update(_{kind}_exports.exports(_{kind}))")
    return "\n".join([*lines, ""])


def main() -> int:
    """Command line. Exit code 2 means a mistake of the author, 0 success."""
    parser = argparse.ArgumentParser(prog="python -m gymkhana_sdk.build", description="Build a plugin from a folder.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder with pyproject.toml")
    parser.add_argument("--out", type=Path, metavar="FILE", help="output file (default: DIR/NAME.wasm)")
    arguments = parser.parse_args()
    try:
        out = arguments.out or arguments.folder / f"{Project.read(arguments.folder).name}.wasm"
        build(arguments.folder, out)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
