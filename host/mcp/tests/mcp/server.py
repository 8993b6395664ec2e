"""An MCP server over standard input and output, in Python's standard library. The first argument names its behaviour.

It speaks revision 2025-11-25: a request before `initialize` gets an error. Behaviours other than `plain` are those of
broken and hostile servers.
"""

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import time

BEHAVIOUR = sys.argv[1] if len(sys.argv) > 1 else "plain"
NUMBER = {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}, "required": ["a", "b"]}
EMPTY = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "add", "description": "Adds two numbers.", "inputSchema": NUMBER},
    {"name": "count.calls", "description": "Counts the calls of this session.", "inputSchema": EMPTY},
    {"name": "look", "description": "Describes the process.", "inputSchema": EMPTY},
    {"name": "picture", "description": "Returns a picture.", "inputSchema": EMPTY},
    {"name": "fail", "description": "Fails.", "inputSchema": EMPTY},
    {"name": "refuse", "description": "Answers with an error of the protocol.", "inputSchema": EMPTY},
    {"name": "misbehave", "description": "Does what the behaviour says.", "inputSchema": EMPTY},
]
calls = 0
sent = []


# Answers to a call that cannot be read.
UNREADABLE = {
    "no-jsonrpc": b'{"id":%d,"result":{"content":[]}}',
    "text-code": b'{"jsonrpc":"2.0","id":%d,"error":{"code":"E1","message":"no"}}',
    "text-id": b'{"jsonrpc":"2.0","id":"%d","result":{"content":[]}}',
    "nan": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"v":NaN}}}',
    "half-surrogate": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\\ud83d"}]}}',
    "latin-1": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"caf\xe9"}]}}',
}
# Fields that the answer to `initialize` lacks.
INCOMPLETE = {
    "no-version": lambda result: result["serverInfo"].pop("version"),
    "number-version": lambda result: result["serverInfo"].update(version=1.0),
    "no-name": lambda result: result["serverInfo"].pop("name"),
    "no-server-info": lambda result: result.pop("serverInfo"),
    "no-capabilities": lambda result: result.pop("capabilities"),
}


def send(message):
    if BEHAVIOUR == "http":
        sent.append(message)
        return
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def text(text, **more):
    return {"content": [{"type": "text", "text": text}], **more}


def can_connect():
    try:
        socket.create_connection((os.environ.get("PROBE_HOST", "127.0.0.1"), int(os.environ["PROBE_PORT"])), 2).close()
        return True
    except OSError:
        return False


def look():
    seen = {"env": sorted(os.environ), "folder": os.getcwd(), "home": os.environ["HOME"], "pid": os.getpid()}
    if "PROBE_PORT" in os.environ:
        seen["connects"] = can_connect()
    return text(json.dumps(seen))


def start_child():
    """Starts a process that writes to a file until it is killed, in the server's process group or in a session of its own."""
    beat = "while :; do echo . >> \"$BEAT\"; sleep 0.02; done"
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(["sh", "-c", beat], **quiet, start_new_session=os.environ["WAY"] == "leaves")


def misbehave(request):
    if BEHAVIOUR.startswith("child"):
        start_child()
    if BEHAVIOUR == "child-hang":
        time.sleep(600)
    if BEHAVIOUR == "stop":
        with open(os.environ["PIDS"], "w") as file:
            file.write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    if BEHAVIOUR == "hang":
        child = subprocess.Popen(["sleep", "600"])
        with open(os.environ["PIDS"], "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    if BEHAVIOUR == "flood":
        while True:
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 999}})
    if BEHAVIOUR == "garbage":
        sys.stdout.write("not json\n{\"jsonrpc\": 1}\n[]\n\x00\xff\n" * 10)
        sys.stdout.flush()
    if BEHAVIOUR in ("large", "http"):
        return text("y" * (2 << 20))
    if BEHAVIOUR == "endless-line":
        while True:
            sys.stdout.write("z" * 65536)
    if BEHAVIOUR in ("die", "child-die"):
        sys.exit(3)
    if BEHAVIOUR == "ask":
        send({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
    if BEHAVIOUR in UNREADABLE:
        sys.stdout.buffer.write(UNREADABLE[BEHAVIOUR] % request["id"] + b"\n")
        sys.stdout.flush()
        time.sleep(600)
    if BEHAVIOUR == "wrong":
        send({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": []}})
    return text("well")


def call(request):
    global calls
    name, arguments = request["params"]["name"], request["params"].get("arguments") or {}
    calls += 1
    if name == "add":
        total = arguments["a"] + arguments["b"]
        return text(str(total), structuredContent={"sum": total})
    if name == "count.calls":
        return text(str(calls))
    if name == "look":
        return look()
    if name == "picture":
        return {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}
    if name == "fail":
        return text("it does not work", isError=True)
    return misbehave(request)


def answer(request):
    method = request.get("method")
    if "id" not in request or method is None:
        return
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    if method == "initialize":
        if BEHAVIOUR == "stop-at-start":
            os.kill(os.getpid(), signal.SIGSTOP)
        if BEHAVIOUR == "hang-at-start":
            time.sleep(600)
        info = {"name": "arithmetic", "version": "2.0.0" if BEHAVIOUR == "newer" else "1.4.0"}
        version = request["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        INCOMPLETE.get(BEHAVIOUR, lambda _: None)(result)
        send({**reply, "result": result})
    elif method == "tools/list":
        tools = TOOLS[:-1] if BEHAVIOUR == "fewer" else TOOLS
        if BEHAVIOUR in ("turned", "turned-and-changed", "turned-and-fewer"):
            tools = TOOLS[::-1]
        if BEHAVIOUR == "turned-and-changed":
            tools = tools[:-1] + [{**tools[-1], "description": "Subtracts."}]
        if BEHAVIOUR == "turned-and-fewer":
            tools = tools[:-1]
        if BEHAVIOUR == "no-schema":
            tools = [{"name": "add"}]
        if BEHAVIOUR == "same-names":
            tools = [{**TOOLS[0], "name": "a.b"}, {**TOOLS[0], "name": "a/b"}]
        send({**reply, "result": {"tools": tools}})
    elif method == "tools/call" and request["params"]["name"] == "refuse":
        send({**reply, "error": {"code": -32602, "message": "the arguments are not right"}})
    elif method == "tools/call":
        send({**reply, "result": call(request)})
    else:
        send({**reply, "error": {"code": -32601, "message": "there is no such method"}})


class Http(http.server.BaseHTTPRequestHandler):
    """Streamable HTTP with JSON answers. A request without the key of the environment is refused."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Mcp-Session-Id", "one")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("X-Key") != "let me in":
            return self.reply(403)
        if request["method"] == "tools/call" and len(sys.argv) > 2:
            body = UNREADABLE[sys.argv[2]] % request["id"]
            if "events" in sys.argv:
                return self.reply(200, b"data: " + body + b"\n\n", "text/event-stream")
            return self.reply(200, body)
        sent.clear()
        answer(request)
        if not sent:
            return self.reply(202)
        self.reply(200, json.dumps(sent[-1]).encode())

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        print("deleted", flush=True)
        self.reply(200)


if BEHAVIOUR == "http":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http)
    print(server.server_address[1], flush=True)
    server.serve_forever()
if BEHAVIOUR == "complain":
    sys.stderr.write("cannot find the database\n")
    sys.exit(1)
for line in sys.stdin:
    answer(json.loads(line))
