"""An agent of the OpenAI Agents SDK: its tool comes by MCP, and it calls the policy by Responses and chat completions."""

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI


async def main() -> None:
    set_tracing_disabled(True)
    async with MCPServerStreamableHttp(params={"url": os.environ["GYMKHANA_MCP_URL"]}) as server:
        for model in ("policy", OpenAIChatCompletionsModel(model="policy", openai_client=AsyncOpenAI())):
            agent = Agent(name="adder", instructions="Use the tools.", model=model, mcp_servers=[server])
            print((await Runner.run(agent, "What is 2 + 2?")).final_output)


asyncio.run(main())
