"""The package imports no framework, and an adapter without its framework says what to install."""

import subprocess
import sys

import pytest

FRAMEWORKS = {
    "gymnasium": ("gymnasium", "gymnasium"),
    "openrlhf": ("openrlhf", "openrlhf"),
    "pettingzoo": ("pettingzoo", "pettingzoo"),
    "skyrl": ("skyrl_gym", "skyrl-gym"),
    "tinker": ("tinker_cookbook", "tinker-cookbook"),
    "verifiers": ("verifiers", "verifiers"),
    "verl": ("verl", "verl"),
}


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_package_and_trls_adapter_import_no_framework() -> None:
    modules = [module for module, _ in FRAMEWORKS.values()] + ["datasets", "trl", "torch", "transformers"]
    imports = "import sys, gymkhana_rl, gymkhana_rl.trl, gymkhana_rl.datasets"
    code = f"{imports}\nprint([module for module in {modules} if module in sys.modules])"
    assert run(code).strip() == "[]"


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_a_missing_framework_is_named_with_its_package(adapter: str) -> None:
    module, package = FRAMEWORKS[adapter]
    code = f"""
import sys
sys.modules[{module!r}] = None
try:
    import gymkhana_rl.{adapter}
except ImportError as error:
    print(error.hint)
"""
    assert run(code).strip() == f"pip install {package}"


def test_a_missing_datasets_is_named_when_a_data_set_is_made() -> None:
    code = """
import sys
sys.modules["datasets"] = None
from gymkhana_rl import GymkhanaError
from gymkhana_rl.datasets import tasks
try:
    tasks("any", count=1)
except GymkhanaError as error:
    print(error.hint)
"""
    assert run(code).strip() == "pip install datasets"
