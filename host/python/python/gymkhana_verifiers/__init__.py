"""Name under which verifiers finds the taskset, environment and harness of `gymkhana_rl.verifiers`."""

from gymkhana_rl.verifiers import InProcessHarness, PluginEnv, PluginTaskset

__all__ = ["InProcessHarness", "PluginEnv", "PluginTaskset"]
