//! A small run in which an agent program plays.

pub const PLUGINS: &str = "plugins/word-problems.wasm,plugins/answer-match.wasm";

/// The smallest run with a program. Steps overlap with generation, so that tokens come from earlier weights.
pub const RUN: &str = r#"
seed = 1
success = "answer-match.correct"

[agent]
command = ["python3", "agent.py"]
seconds = 60

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }

[limits]
turns = 3
reply_tokens = 8

[evaluation]
tasks = 2
sampled = false

[[stages]]
kind = "rl"
steps = 3
groups = 2
group_size = 2
max_staleness = 1
optimizer = { learning_rate = 1e-2 }
"#;

/// Asks, asks again with the first reply in the history, and prints the last reply.
pub const AGENT: &str = r#"
import json, os, sys, urllib.request

def ask(messages):
    body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages}).encode()
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]

messages = [{"role": "user", "content": json.load(sys.stdin)["prompt"]}]
messages += [ask(messages), {"role": "user", "content": "Again."}]
print("Answer:", ask(messages)["content"])
"#;
