"""Starts `gymkhana_rl.torch` from the sources, without the native module that `gymkhana_rl` imports."""

import pathlib
import runpy
import sys
import types

package = types.ModuleType("gymkhana_rl")
package.__path__ = [str(pathlib.Path(__file__).parents[3] / "host/python/python/gymkhana_rl")]
sys.modules["gymkhana_rl"] = package
runpy.run_module("gymkhana_rl.torch", run_name="__main__")
