"""mini-swe-agent with its default prompts, which works in a shell and calls the policy by litellm."""

import os

os.environ["MSWEA_COST_TRACKING"] = "ignore_errors"
os.environ["MSWEA_SILENT_STARTUP"] = "1"

import litellm
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

# It would print hints on standard output, which is the program's answer.
litellm.suppress_debug_info = True
config = yaml.safe_load((builtin_config_dir / "mini.yaml").read_text())["agent"]
config = {key: config[key] for key in ("system_template", "instance_template")}
model = LitellmModel(model_name="openai/policy")
result = DefaultAgent(model, LocalEnvironment(), **config).run("What is 2 + 2?")
assert result["exit_status"] == "Submitted", result
print(result["submission"])
