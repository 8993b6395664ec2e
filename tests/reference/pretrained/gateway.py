"""`host gateway` in front of a server of transformers, with OpenAI's client."""
import json
import pathlib
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
import training
from transformers import AutoTokenizer

CLIENT = pathlib.Path(__file__).with_name("client.py")
RUN = """success = "answer-match.correct"

[policy]
checkpoint = "model"
server = {{ url = "http://127.0.0.1:{port}", protocol = "vllm", name = "smollm2" }}

[limits]
turns = 4
reply_tokens = 16
"""
SECONDS = 300


class Server(ThreadingHTTPServer):
    """The part of vLLM's protocol that a policy needs, by greedy generation in transformers."""

    def __init__(self, model):
        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.prompts = model, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def completion(self, body):
        prompt = body["prompt"]
        self.prompts.append(prompt)
        stops = body["stop_token_ids"]
        with torch.no_grad():
            output = self.model.generate(
                torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
                max_new_tokens=body["max_tokens"], eos_token_id=stops, pad_token_id=0, output_logits=True,
                return_dict_in_generate=True)
        tokens = output.sequences[0, len(prompt):].tolist()
        rows = [torch.log_softmax(logits[0].double(), -1)[token].item() for logits, token in zip(output.logits, tokens)]
        reason = "stop" if tokens[-1] in stops else "length"
        choice = {"token_ids": tokens, "logprobs": {"token_logprobs": rows}, "finish_reason": reason, "text": ""}
        return {"choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    """Requests of the gateway."""

    def do_GET(self):
        self.answer({"data": [{"id": "smollm2", "max_model_len": 8192}]})

    def do_POST(self):
        self.answer(self.server.completion(json.loads(self.rfile.read(int(self.headers["content-length"])))))

    def answer(self, body):
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def check(host, folder, model, clients):
    """A session of two turns: the server gets the tokens of transformers' chat template, the client the replies."""
    server, tokenizer = Server(model), AutoTokenizer.from_pretrained(folder)
    (host.folder / "gateway.toml").write_text(RUN.format(port=server.server_port))
    gateway = host.start("gateway", "gateway.toml", "--listen", "127.0.0.1:0", "--out", "sessions", *training.plugins())
    try:
        place = next(found[1] for line in gateway.stderr if (found := re.search(r"gateway is at (http://\S+)", line)))
        run = subprocess.run([clients, CLIENT, place], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert run.returncode == 0, run.stderr
        played = json.loads(run.stdout)
    finally:
        gateway.terminate()
        gateway.communicate(timeout=SECONDS)
    server.shutdown()
    messages = played["messages"]
    replies = [at for at, one in enumerate(messages) if one["role"] == "assistant"]
    # The gateway's first request asks whether the server answers with tokens.
    prompts = server.prompts[1:]
    assert len(replies) == 2 == len(prompts), played
    for at, prompt in zip(replies, prompts):
        expected = tokenizer.apply_chat_template(messages[:at], add_generation_prompt=True, return_dict=False)
        assert prompt == expected, f"{tokenizer.decode(prompt)!r} is not {tokenizer.decode(expected)!r}"
        tokens = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=16, pad_token_id=0)
        reply = tokens[0, len(prompt):]
        text = tokenizer.decode(reply, skip_special_tokens=True)
        assert messages[at]["content"] == text, f"{messages[at]} is not {text!r}"
    assert played["result"]["ending"] == "terminated", played["result"]
    host.run("replay", "sessions")
    print("gateway: prompts and replies of a session by OpenAI's client are those of transformers; its replay agrees")
