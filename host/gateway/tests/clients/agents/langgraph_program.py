"""A ReAct agent of LangGraph with a tool of its own, and a model of `langchain-openai`."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


agent = create_react_agent(ChatOpenAI(model="policy"), [add])
state = agent.invoke({"messages": [{"role": "user", "content": "What is 2 + 2?"}]})
print(state["messages"][-1].content)
