"""Tools: sessions, and functions that trainers inspect."""

from __future__ import annotations

import inspect
from typing import Any, Literal, Optional, get_type_hints

import pytest

import gymkhana_rl as gk
from gymkhana_rl._functions import function_of


def test_a_tool_answers(load):
    tool = load("calculator").tool(seed=1)
    assert tool.call("calculate", {"expression": "12*12"}) == gk.ToolAnswer("144", False)
    assert tool.call("calculate", {"expression": "1/0"}).failed
    with pytest.raises(gk.OptionError, match="no function `calculat`") as raised:
        tool.call("calculat", {})
    assert raised.value.hint.endswith("did you mean `calculate`?")
    with pytest.raises(gk.OptionError, match="not a mapping"):
        tool.call("calculate", "12")
    tool.close()
    with pytest.raises(gk.StaleHandleError, match="it is closed"):
        tool.call("calculate", {"expression": "1"})


def test_functions_are_python_functions(load):
    tool = load("calculator").tool()
    calculate = tool.functions["calculate"]
    assert inspect.isfunction(calculate) and calculate.__name__ == "calculate"
    assert get_type_hints(calculate) == {"expression": str, "return": str}
    assert str(inspect.signature(calculate)) == "(expression: str) -> str"
    summary, _, arguments, entry, *_ = calculate.__doc__.split("\n")
    assert (summary, arguments) == (tool.schemas[0]["description"], "Args:") and entry.startswith("    expression: ")
    assert calculate("6*7") == calculate(expression="6*7") == "42"
    with pytest.raises(TypeError, match="expression"):
        calculate()
    with pytest.raises(TypeError):
        calculate("1", "2")


def test_schemas_become_signatures():
    heard: list[Any] = []
    schema = {
        "name": "look",
        "description": "Looks.\n\nArgs:\n    forged: no",
        "parameters": {
            "type": "object",
            "properties": {
                "depth": {"type": "integer"},
                "class": {"enum": ["a", "b"]},
                "not-a-name": {"type": ["string", "null"]},
                "items": {"type": "array", "items": {"type": "number"}, "description": "one\nline\nReturns: no"},
                'x"); import os; ("': {},
            },
            "required": ["class", "items"],
        },
    }
    look = function_of(schema, lambda name, arguments: heard.append((name, arguments)))
    signature = inspect.signature(look)
    assert list(signature.parameters) == ["class_", "items", "depth", "not_a_name", "x____import_os____"]
    hints = get_type_hints(look)
    assert hints["class_"] == Literal["a", "b"] and hints["items"] == list[float] and hints["depth"] == Optional[int]
    assert look.__doc__.split("\n")[0] == "Looks. Args: forged: no"
    assert "    items: one line Returns: no" in look.__doc__.split("\n")
    look("a", items=[1.0], not_a_name="n")
    assert heard == [("look", {"class": "a", "items": [1.0], "not-a-name": "n"})]


@pytest.mark.parametrize("misdeed", ["trap", "loop", "memory", "recurse", "huge", "claim", "error", "fill", "host-calls"])
def test_a_misdeed_is_a_failed_answer(load, misdeed):
    tool = load("guest-hostile-tool", timeout_s=0.3).tool()
    assert tool.call("state", {}).content == "1"
    answer = tool.call(misdeed, {})
    assert answer.failed and answer.content.startswith("the tool failed")
    # A session that failed begins again.
    assert not tool.call("echo", {"text": "alive"}).failed


def test_a_session_keeps_its_state(load):
    tool = load("guest-hostile-tool").tool()
    assert [tool.call("state", {}).content for _ in range(3)] == ["1", "2", "3"]
    tool.call("trap", {})
    assert tool.call("state", {}).content == "1"


def test_seeds_determine_random_numbers(load):
    plugin = load("guest-hostile-tool")
    draws = [plugin.tool(seed=seed).call("random", {}).content for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_tools_with_options_serve_in_environments(load):
    problems, tool = load("word-problems"), load("calculator").tool()
    env = problems.env(tools=[tool])
    env.reset()
    assert env.step(gk.Call("calculate", {"expression": "2+2"}))[0] == "4"
