"""A solver on the official `openai` client, with the run's calculator, which it calls by MCP."""

import json
import os
import sys
import urllib.request

from openai import OpenAI

TURNS = 3


def tools(method: str, **params) -> dict:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with urllib.request.urlopen(urllib.request.Request(os.environ["GYMKHANA_MCP_URL"], body, headers)) as answer:
        return json.load(answer)["result"]


offered = [
    {"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
    for tool in tools("tools/list")["tools"]
]
functions = [{"type": "function", "function": tool} for tool in offered]
client = OpenAI()
messages = [{"role": "user", "content": json.load(sys.stdin)["prompt"]}]
for _ in range(TURNS):
    reply = client.chat.completions.create(model="policy", messages=messages, tools=functions).choices[0].message
    messages.append(reply)
    if not reply.tool_calls:
        break
    for call in reply.tool_calls:
        answer = tools("tools/call", name=call.function.name, arguments=json.loads(call.function.arguments))
        text = "".join(part["text"] for part in answer["content"])
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
print(reply.content or "")
