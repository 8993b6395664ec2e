"""Agents of smolagents: one that calls tools, and one that writes code."""

import os

from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


model = OpenAIModel("policy", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
print(ToolCallingAgent([add], model, verbosity_level=0).run("What is 2 + 2?"))
print(CodeAgent([add], model, verbosity_level=0).run("What is 2 + 2?"))
