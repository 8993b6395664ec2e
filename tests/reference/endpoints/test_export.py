"""OpenEnv's validator of packages against the folder that `host serve export` writes."""

import os
import subprocess
import sys

from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.contracts import load_runtime_plan
from served import REPO


def test_the_package_is_valid(tmp_path):
    folder = tmp_path / "container"
    plugins = [REPO / "target/plugins" / f"{name}.wasm" for name in ("frozen-lake", "calculator")]
    subprocess.run([os.environ["GYMKHANA_HOST"], "serve", "export", *plugins, "--out", folder], check=True)
    validate = [sys.executable, "-m", "openenv.cli", "validate", folder, "--level", "static"]
    report = subprocess.run(validate, capture_output=True, text=True)
    assert (report.returncode, "Verdict: PASS" in report.stdout) == (0, True), report.stdout + report.stderr
    manifest = OpenEnvYamlParser().parse(folder)
    assert (manifest.name, manifest.reward.range, manifest.network.mode) == ("frozen-lake", (0.0, 1.0), "no-network")
    assert manifest.capabilities.declared_tools == ["calculate"]
    assert load_runtime_plan(folder, manifest.execution).actions
    again = [os.environ["GYMKHANA_HOST"], "serve", "export", *plugins, "--out", folder]
    assert subprocess.run(again, capture_output=True).returncode == 2, "a folder with files is not overwritten"
