"""The official client of Python and FastMCP's against the MCP endpoint, by both revisions, over HTTP and standard streams."""

import asyncio
import json
import urllib.request

import fastmcp
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from served import command

# The way over the map of four by four tiles.
MOVES = ("down", "down", "right", "down", "right", "right")
MODES = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}


def request(url, method="POST", **body):
    data = json.dumps(body).encode() if method == "POST" else None
    sent = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)


def texts(result):
    return [block.text for block in result.content if block.type == "text"]


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_plays_at_the_url_of_its_episode(url, mode):
    opened = request(f"{url}/mcp/episodes", environment="frozen-lake", seed=3)

    async def play():
        async with Client(url + opened["mcp"], mode=mode) as client:
            assert client.protocol_version == MODES[mode]
            names = [tool.name for tool in (await client.list_tools()).tools]
            first = await client.call_tool("observe")
            failed = await client.call_tool("calculate", {"expression": "6*"})
            right = await client.call_tool("calculate", {"expression": "6*7"})
            steps = [await client.call_tool("say", {"text": move}) for move in MOVES]
            late = await client.call_tool("say", {"text": "down"})
            with pytest.raises(MCPError):
                await client.call_tool("fly")
            return names, first, failed, right, steps, late

    names, first, failed, right, steps, late = asyncio.run(play())
    assert {"calculate", "say", "observe"} <= set(names)
    assert texts(first) == [opened["text"]]
    assert (failed.is_error, failed.meta["owner"]) == (True, "agent")
    assert "42" in texts(right)[0]
    assert [step.meta["done"] for step in steps] == [False] * 5 + [True]
    assert (late.is_error, late.meta["kind"]) == (True, "out-of-order")
    assert not any("reward" in step.model_dump_json() for step in steps)
    status = request(f"{url}/mcp/episodes/{opened['episode']}", "GET")
    assert (status["rewards"], status["ending"]) == ([1.0], "terminated")
    assert request(f"{url}/mcp/episodes/{opened['episode']}", "DELETE")["rewards"] == [1.0]


@pytest.mark.parametrize("mode", MODES)
def test_handles_play_two_episodes_at_once(url, mode):
    async def play():
        async with Client(f"{url}/handles/mcp", mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["open", "act", "close"]
            start = {"environment": "frozen-lake", "seed": 3}
            opened = [(await client.call_tool("open", start)).structured_content for _ in range(2)]
            one, two = (episode["episode"] for episode in opened)
            first = await client.call_tool("act", {"episode": one, "text": "down", "turn": 0})
            again = await client.call_tool("act", {"episode": one, "text": "down", "turn": 0})
            other = await client.call_tool("act", {"episode": two, "text": "right", "turn": 0})
            closed = [await client.call_tool("close", {"episode": handle}) for handle in (one, two)]
            gone = await client.call_tool("act", {"episode": one, "text": "down"})
            return opened, first, again, other, closed, gone

    opened, first, again, other, closed, gone = asyncio.run(play())
    assert opened[0]["text"] == opened[1]["text"]
    assert first.structured_content == again.structured_content
    assert first.structured_content["text"] != other.structured_content["text"]
    assert not any(result.is_error for result in closed)
    assert gone.meta == {"kind": "unknown-session", "owner": "agent"}


def test_fastmcp_plays_an_episode(url):
    opened = request(f"{url}/mcp/episodes", environment="frozen-lake", seed=3)

    async def play():
        async with fastmcp.Client(url + opened["mcp"]) as client:
            names = [tool.name for tool in await client.list_tools()]
            steps = [await client.call_tool("say", {"text": move}) for move in MOVES]
            with pytest.raises(fastmcp.exceptions.ToolError):
                await client.call_tool("calculate", {"expression": "6*"})
            return names, steps

    names, steps = asyncio.run(play())
    assert {"calculate", "say", "observe"} <= set(names)
    assert [step.meta["done"] for step in steps] == [False] * 5 + [True]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tools", ["plain", "handles"])
def test_standard_streams_serve_one_client(mode, tools):
    program, *arguments = command(("calculator",), f"--stdio={tools}")

    async def play():
        async with Client(StdioServerParameters(command=program, args=arguments), mode=mode) as client:
            assert client.protocol_version == MODES[mode]
            if tools == "plain":
                return await client.call_tool("calculate", {"expression": "6*7"})
            opened = await client.call_tool("open", {"seed": 1})
            episode = opened.structured_content["episode"]
            call = {"name": "calculate", "arguments": {"expression": "6*7"}}
            return await client.call_tool("act", {"episode": episode, "calls": [call]})

    assert texts(asyncio.run(play())) == ["42"]
