"""Makes a plugin of a folder: `python -m gymkhana.build DIR --out FILE`.

The folder holds `pyproject.toml` and the modules that it names, beside it or in `src`. componentize-py puts CPython
around them: modules are imported while the component is made, and what is not imported then is not there later.
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

from . import contract
from .manifest import FREE, BuildError, Project, stamp

COMPONENTIZE = "componentize-py==0.25.1"
"""The compiler that this SDK was tested with."""

_WORLD = "plugin-to-build"
_ENTRY = "gymkhana_entry"


def build(folder: Path, out: Path) -> None:
    """Makes the component of the project in `folder`. Raises `BuildError` for what the author can put right."""
    project = Project.read(folder)
    if util.find_spec("componentize_py") is None:
        raise BuildError(
            f"componentize-py is missing, which puts CPython around a plugin; run `{sys.executable} -m pip install "
            f"{COMPONENTIZE}`"
        )
    places = [place for place in (folder / "src", folder) if place.is_dir()]
    paths = [str(place.resolve()) for place in (*places, Path(__file__).parent.parent)]
    found = _abilities(project, paths)
    manifest = project.manifest(found["range"])
    with tempfile.TemporaryDirectory() as made:
        component = _componentize(Path(made), project, found["interfaces"], paths)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Whoever reads it meanwhile sees the old or the new one whole.
    temporary = out.with_name(f"{out.name}.{os.getpid()}.tmp")
    temporary.write_bytes(stamp(component, manifest))
    temporary.replace(out)


def _abilities(project: Project, paths: list[str]) -> dict:
    """What the classes offer, as a process of its own sees it."""
    words = [f"{kind}={place}" for kind, place in project.classes.items()]
    path = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "gymkhana.abilities", *words]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    if result.returncode == 2:
        raise BuildError(result.stderr.strip())
    if result.returncode != 0:
        raise BuildError(f"the plugin's modules cannot be imported:\n{result.stderr.strip()}")
    return json.loads(result.stdout.splitlines()[-1])


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
        # What stands below is componentize-py's own backtrace.
        said = (result.stderr + result.stdout).split("\n\nCaused by:")[0].strip()
        raise BuildError(f"componentize-py refuses the plugin (modules are imported while it is made):\n{said}")
    return component.read_bytes()


def _entry(project: Project) -> str:
    """The module whose names componentize-py exports. The author's modules come first: they may replace others."""
    lines = []
    for kind, place in project.classes.items():
        module, name = place.split(":")
        lines.append(f"from {module} import {name} as _{kind}")
    for kind in project.classes:
        lines.append(f"from gymkhana._component import {kind} as _{kind}_exports")
        lines.append(f"globals().update(_{kind}_exports.exports(_{kind}))")
    return "\n".join([*lines, ""])


def main() -> int:
    """The command line; exit code 2 says that the author can put it right."""
    parser = argparse.ArgumentParser(prog="python -m gymkhana.build", description="Makes a plugin of a folder.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder with pyproject.toml")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the component goes; DIR/NAME.wasm by default")
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
