"""The official MCP client, by the revision with a handshake and by the newest, and a model that is asked by `openai`."""

import asyncio
import os

from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from openai import OpenAI

URL = os.environ["GYMKHANA_MCP_URL"]


def check(tools, answer) -> None:
    assert [tool.name for tool in tools.tools] == ["add"], tools
    assert (answer.content[0].text, bool(answer.is_error)) == ("4", False), answer


async def main() -> None:
    async with streamable_http_client(URL) as (read, write, *_), ClientSession(read, write) as session:
        await session.initialize()
        check(await session.list_tools(), await session.call_tool("add", {"a": 2, "b": 2}))
    async with Client(URL) as client:
        check(await client.list_tools(), await client.call_tool("add", {"a": 2, "b": 2}))
        failed = await client.call_tool("no_such_tool", {})
        assert failed.is_error, failed


asyncio.run(main())
question = [{"role": "user", "content": "What is 2 + 2?"}]
print(OpenAI().chat.completions.create(model="policy", messages=question).choices[0].message.content)
