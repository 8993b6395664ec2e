"""An agent program: it asks the policy for a draft, asks it to check the draft, and prints the answer.

It needs no package. A program that uses the client `openai` reads the same two variables by itself.
"""

import json
import os
import sys
import urllib.request


def ask(messages):
    """The policy's reply to a conversation."""
    body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


task = json.load(sys.stdin)
messages = [{"role": "user", "content": task["prompt"]}]
draft = ask(messages)
messages += [draft, {"role": "user", "content": "Check it, then write the number only."}]
print(ask(messages)["content"])
