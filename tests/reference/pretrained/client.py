#!/usr/bin/env python3
"""An agent with OpenAI's client: client.py URL opens a session of a gateway, takes two turns, closes it, and prints the
messages and the result as JSON."""
import json
import sys
import urllib.request

from openai import OpenAI


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=120).read())


if __name__ == "__main__":
    session = post(f"{sys.argv[1]}/sessions", {"task": {"split": "train", "index": 3}, "seed": 5})
    client = OpenAI(base_url=session["base_url"], api_key=session["api_key"], timeout=120)
    messages = []
    for text in (session["task"]["prompt"], "Are you sure?"):
        messages.append({"role": "user", "content": text})
        reply = client.chat.completions.create(model=session["model"], messages=messages, temperature=0)
        messages.append({"role": "assistant", "content": reply.choices[0].message.content})
    result = post(f"{sys.argv[1]}/sessions/{session['id']}/close", {"answer": "1"})
    print(json.dumps({"messages": messages, "result": result}))
