"""Builds a plugin from a folder: `python -m gymkhana_sdk.build DIR --out FILE`.

The folder contains `pyproject.toml` and the modules that it names, beside it or in `src`. componentize-py bundles them
with CPython. It imports modules at build time; modules that are not imported at build time are missing at run time.
With `--quick FOLDER` it is called rarely: see `quick_build`.
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
from ._packages import archive, native
from ._packages.collect import collect
from .manifest import FREE, BuildError, Project, stamp
from .quick_build import base
from .quick_build.modules import Modules

COMPONENTIZE = "componentize-py==0.25.1"
"""Compiler version that this SDK is tested with."""

_WORLD = "plugin-to-build"
_ENTRY = "gymkhana_entry"
_SDK = str(Path(__file__).parent.parent)


def build(folder: Path, out: Path, bases: Path | None = None) -> None:
    """Builds the project in `folder` into the component `out`. Raises `BuildError` for mistakes of the author.

    With `bases`, a folder of bundles of earlier builds, it is a quick build where that is possible.
    """
    project = Project.read(folder)
    if util.find_spec("componentize_py") is None:
        raise BuildError(
            f"componentize-py is missing, which bundles a plugin with CPython; run `{sys.executable} -m pip install "
            f"{COMPONENTIZE}`"
        )
    places = [str(place.resolve()) for place in (folder / "src", folder) if place.is_dir()]
    found = _abilities(project, places)
    # Raises for mistakes of the author before the bundling.
    manifest = project.manifest(found["range"])
    interfaces = found["interfaces"]
    modules = Modules.of(found["modules"])
    component = _quick(project, interfaces, modules, bases) if bases else None
    if component is not None:
        manifest["quick"] = True
    else:
        component = _componentize(project, interfaces, modules, _entry(project), places)
    out.parent.mkdir(parents=True, exist_ok=True)
    # The rename is atomic: a concurrent reader sees the old or the new component, never a partial one.
    temporary = out.with_name(f"{out.name}.{os.getpid()}.tmp")
    temporary.write_bytes(stamp(component, manifest))
    temporary.replace(out)


def _quick(project: Project, interfaces: list[str], modules: Modules, bases: Path) -> bytes | None:
    """Component of a quick build, or None if the plugin needs to be bundled whole."""
    if modules.other:
        return None
    needed = base.Base.of(modules, interfaces, project)
    return base.component(bases, needed, modules, lambda entry: _componentize(project, interfaces, modules, entry, []))


def _abilities(project: Project, places: list[str]) -> dict[str, Any]:
    """Output of `abilities` for the project's classes, run in a separate process."""
    words = [f"{kind}={place}" for kind, place in project.classes.items()]
    words.append(f"placeholders={','.join(project.placeholders)}")
    path = os.pathsep.join([*places, _SDK, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "gymkhana_sdk.abilities", os.pathsep.join(places), *words]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    if result.returncode == 2:
        raise BuildError(result.stderr.strip())
    if result.returncode != 0:
        raise BuildError(f"Python ended while it imported the plugin's modules:\n{result.stderr.strip()}")
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def _componentize(project: Project, interfaces: list[str], modules: Modules, entry: str, places: list[str]) -> bytes:
    """Bundles the module with the source `entry`, modules in `places` and installed packages with CPython."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        wit = made / "wit"
        wit.mkdir()
        for file in contract.FOLDER.glob("*.wit"):
            (wit / file.name).write_bytes(file.read_bytes())
        imports = ["types", *FREE, *project.capabilities]
        (wit / f"{_WORLD}.wit").write_text(contract.world(_WORLD, imports, interfaces))
        (made / "entry").mkdir()
        (made / "entry" / f"{_ENTRY}.py").write_text(entry)
        packages = collect(modules.roots, project.dependencies, project.placeholders)
        (made / "entry" / archive.NAME).write_bytes(packages.to_bytes())
        component = made / "plugin.wasm"
        arguments = ["-q", "-d", str(wit), "-w", _WORLD, "componentize"]
        for path in (str(made / "entry"), *places, _SDK):
            arguments += ["-p", path]
        run = "import sys; from componentize_py import script; sys.argv[0] = 'componentize-py'; script()"
        command = [sys.executable, "-c", run, *arguments, _ENTRY, "-o", str(component)]
        # The compiler takes packages from there, else from the Python that the shell would start.
        environment = {"VIRTUAL_ENV": sys.prefix} if sys.prefix != sys.base_prefix else {}
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
        if result.returncode != 0 or not component.is_file():
            # The rest is componentize-py's own backtrace.
            said = (result.stderr + result.stdout).split("\n\nCaused by:")[0].strip()
            if native.MARK in said:
                raise BuildError(_import_error(said))
            raise BuildError(f"componentize-py rejected the plugin (modules are imported at build time):\n{said}")
        return component.read_bytes()


def _import_error(said: str) -> str:
    """Message about a module that cannot be in a component, from the line that the component wrote."""
    fields = json.loads(said.partition(native.MARK)[2].splitlines()[0])
    if "placeholder" in fields:
        return f"{fields['placeholder']}\nhint: remove it from `placeholders` in [tool.gymkhana], or import it later"
    module, package = fields["module"], fields["package"]
    lines = [f"cannot import `{module}`: a component's CPython lacks it"]
    hint = "import another module, or import this one in a function that your plugin does not call"
    if package is not None:
        lines = [f"package `{package}` cannot be in a component: `{module}` is native code"]
        name = json.dumps(module.split(".")[0])
        hint = (
            f"use a package without it; if your plugin never calls it, add `placeholders = [{name}]` to [tool.gymkhana]"
        )
    lines += [f"  imported by {step}" for step in fields["steps"]]
    return "\n".join([*lines, f"hint: {hint}"])


def _entry(project: Project) -> str:
    """Source of the module that componentize-py exports. It imports the author's modules first."""
    lines = []
    for kind, place in project.classes.items():
        module, name = place.split(":")
        lines.append(f"from {module} import {name} as _{kind}")
    for kind in project.classes:
        lines.append(f"from gymkhana_sdk._component import {kind} as _{kind}_exports")
        lines.append(f"globals().update(_{kind}_exports.exports(_{kind}))")
    return base.prepared(lines)


def main() -> int:
    """Command line. Exit code 2 means a mistake of the author, 0 success."""
    parser = argparse.ArgumentParser(prog="python -m gymkhana_sdk.build", description="Build a plugin from a folder.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder with pyproject.toml")
    parser.add_argument("--out", type=Path, metavar="FILE", help="output file (default: DIR/NAME.wasm)")
    reuse = "reuse bundles of earlier builds in this folder, to try a plugin out"
    parser.add_argument("--quick", type=Path, metavar="FOLDER", help=reuse)
    arguments = parser.parse_args()
    try:
        out = arguments.out or arguments.folder / f"{Project.read(arguments.folder).name}.wasm"
        build(arguments.folder, out, arguments.quick)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
