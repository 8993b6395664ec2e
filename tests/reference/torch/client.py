"""Host side of the protocol: starts `torchrun` and exchanges messages with rank 0."""

import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import safetensors.torch
import torch

LAUNCH = pathlib.Path(__file__).with_name("launch.py")
ADAM = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1, "keep": False}


class Refused(Exception):
    """The engine refused a request."""


def frame(head, tensors=None):
    """Bytes of a message."""
    body = safetensors.torch.save(dict(tensors or {}), {"gymkhana": json.dumps(head)})
    return struct.pack("<Q", len(body)) + body


class Engine:
    """Processes of the engine, and the socket of rank 0."""

    def __init__(self, ranks=1, threads=1):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / "socket"))
        listener.listen()
        listener.settimeout(120)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0"]
        command += ["--nproc-per-node", str(ranks), str(LAUNCH)]
        command += ["--socket", str(self.folder / "socket"), "--errors", str(self.folder / "errors")]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        try:
            self.connection, _ = listener.accept()
        except TimeoutError:
            self.kill()
            raise RuntimeError(self.log.read_text()) from None
        self.connection.settimeout(40)
        self.number = 0
        self.answers = {}
        self.hello = self.wait(0)[0]

    def send(self, kind, tensors=None, **fields):
        """Sends a request, and returns its number."""
        self.number += 1
        self.connection.sendall(frame({"version": 1, "id": self.number, "request": {"kind": kind, **fields}}, tensors))
        return self.number

    def _exactly(self, length):
        data = b""
        while len(data) < length:
            part = self.connection.recv(length - len(data))
            if not part:
                raise EOFError(self.log.read_text()[-5000:])
            data += part
        return data

    def receive(self):
        """Reads one answer."""
        (length,) = struct.unpack("<Q", self._exactly(8))
        body = self._exactly(length)
        (size,) = struct.unpack_from("<Q", body)
        head = json.loads(json.loads(body[8 : 8 + size])["__metadata__"]["gymkhana"])
        assert head["version"] == 1
        self.answers[head["id"]] = (head, safetensors.torch.load(body))
        return head["id"]

    def wait(self, number):
        """Answer to a request, with its tensors."""
        while number not in self.answers:
            self.receive()
        head, tensors = self.answers.pop(number)
        if "error" in head:
            assert head["error"]["kind"] == "invalid"
            raise Refused(head["error"]["text"])
        return head["answer"], tensors

    def ask(self, kind, tensors=None, **fields):
        """Sends a request and waits for its answer."""
        return self.wait(self.send(kind, tensors, **fields))

    def open(self, model, **changes):
        """Opens a model."""
        settings = {"state": None, "reference": False, "dtype": "float64", "checkpointing": False, "lora": None}
        settings |= {"optimizer": "adamw", "seed": 1, "model": str(model)} | changes
        answer, _ = self.ask("open", **settings)
        assert answer["kind"] == "opened"
        return answer

    def forward(self, batch, scorer="policy", temperature=1.0, entropies=True, keep=False):
        """Log-probabilities and entropies of a batch's targets."""
        fields = {"scorer": scorer, "temperature": temperature, "entropies": entropies, "keep": keep}
        answer, found = self.ask("forward", batch, **fields)
        assert answer["kind"] == "found" and set(found) == {"log_probs"} | ({"entropies"} if entropies else set())
        return found

    def step(self, rate=1e-2, most=None, **changes):
        """Takes a step."""
        answer, _ = self.ask("step", learning_rate=rate, max_norm=most, **(ADAM | changes))
        return answer

    def save(self, name):
        """Saves into folders of this name; returns those of weights and state."""
        weights, state = self.folder / f"{name}-weights", self.folder / f"{name}-state"
        weights.mkdir()
        self.ask("save", weights=str(weights), state=str(state), untied=False)
        return weights, state

    def start_reply(self, tokens, **changes):
        """Sends a request for a reply, and returns its number."""
        rules = {"max_tokens": 8, "stop": [], "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 1}
        return self.send("generate", {"tokens": torch.tensor(tokens)}, **(rules | changes))

    def reply(self, tokens, **changes):
        """A reply: the answer and its tensors."""
        return self.wait(self.start_reply(tokens, **changes))

    def processes(self):
        """Process ids of the ranks, by rank."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (path / "cmdline").read_bytes()
                variables = (path / "environ").read_bytes()
            except OSError:
                continue
            if str(self.folder / "socket").encode() in command and b"\0RANK=" in b"\0" + variables:
                rank = int((b"\0" + variables).split(b"\0RANK=")[1].split(b"\0")[0])
                found[rank] = int(path.name)
        return found

    def ended(self, seconds):
        """Exit code of torchrun after all ranks ended."""
        code = self.process.wait(seconds)
        deadline = time.monotonic() + 5
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not self.processes()
        return code

    def words(self):
        """Last words of the ranks."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "errors").glob("rank-*.json"))]

    def kill(self):
        """Ends everything."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
