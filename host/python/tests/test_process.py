"""What programs do to their processes: forks, signals, limits, threads and the interpreter's end."""

from __future__ import annotations

import sys

import pytest

import gymkhana_rl as gk

LOOP = """
def endless(load):
    import time
    since = time.monotonic()
    env = load("guest-hostile-environment", timeout_s=0.2).env(options={"behaviour": "loop-step"})
    env.reset()
    try:
        env.step("yes")
    except gk.PluginError as error:
        assert error.kind == "budget", error
    else:
        raise AssertionError("it ended")
    assert time.monotonic() - since < 30
"""

FORK = """
def in_child(work):
    import os
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0
"""

REJECTS = """
def rejects(use):
    try:
        use()
    except gk.StaleHandleError as error:
        assert "before this process was forked" in str(error) and error.hint, error
    else:
        raise AssertionError("a stale object was used")
"""


def test_an_endless_guest_is_stopped_in_a_forked_child(program):
    out = program(LOOP + FORK + """
endless(load)
print(in_child(lambda: endless(load)), in_child(lambda: in_child(lambda: endless(load)) or 1/0))
endless(load)
""")
    assert out == "True True\n"


def test_objects_from_before_a_fork_are_stale(program):
    out = program(FORK + REJECTS + """
import pickle
lake, tool = load("frozen-lake"), load("calculator").tool()
reward, env, vector = load("answer-match").reward(), lake.env(seed=1), lake.vector_env(4)
env.reset()
vector.reset()
packed = pickle.dumps(env)

def child():
    rejects(lake.describe)
    rejects(lambda: lake.env())
    rejects(lambda: env.step("left"))
    rejects(env.close)
    rejects(lambda: vector.step(["left"] * 4))
    rejects(lambda: gk.step_many([env], ["left"]))
    rejects(lambda: tool.call("calculate", {"expression": "1"}))
    rejects(lambda: reward(completions=["1"], answer=["1"]))
    # What pickles without its handle is made anew; a plugin that was never compiled is compiled here.
    again = pickle.loads(packed)
    again.step(again.advise())
    assert pickle.loads(pickle.dumps(reward))(completions=["1"], answer=["1"]) == [1.0]
    assert pickle.loads(pickle.dumps(tool)).call("calculate", {"expression": "2*3"}).content == "6"
    load("tic-tac-toe").vector_env(40).reset()
    repr(env), repr(lake)

print(in_child(child), repr(env), env.step(env.advise())[1])
""")
    assert out == "True <Env gymkhana/frozen-lake (running)> 0.0\n"


def test_nothing_of_the_parent_is_dropped_in_a_child(program):
    out = program(FORK + """
import gc
def child():
    global env, vector, lake
    env = vector = lake = None
    gc.collect()
lake = load("frozen-lake")
env, vector = lake.env(), lake.vector_env(50)
env.reset(), vector.reset()
print(in_child(child), env.step("left")[1])
""")
    assert out == "True 0.0\n"


def test_a_child_compiles_what_the_parent_did_not(program, tmp_path):
    out = program(f"""
import os
os.environ["XDG_CACHE_HOME"] = {str(tmp_path)!r}
""" + FORK + """
load("frozen-lake")
print(in_child(lambda: load("math-verify").reward()(completions=["1"], answer=["1"])))
""")
    assert out == "True\n"


def test_forks_while_other_threads_call(program):
    out = program(FORK + """
import threading
lake = load("frozen-lake")
stop = threading.Event()
def work():
    env = lake.env()
    while not stop.is_set():
        env.reset()
        while not env.done:
            env.step(env.advise())
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
def child():
    env = load("frozen-lake").env()
    env.reset()
    env.step(env.advise())
done = [in_child(child) for _ in range(20)]
stop.set()
[thread.join() for thread in threads]
print(all(done))
""")
    assert out == "True\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(program, method):
    out = program(f"""
import multiprocessing
def solve(env):
    while not env.done:
        env.step(env.advise())
    return env.record()["rewards"][0]
def score(reward):
    return reward(completions=["42"], answer=["42"])
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        envs = [load("frozen-lake").env(seed=seed) for seed in range(6)]
        [env.reset() for env in envs]
        print(pool.map(solve, envs), pool.map(score, [load("answer-match").reward()] * 2))
""")
    assert out == "[1.0, 1.0, 1.0, 1.0, 1.0, 1.0] [[1.0], [1.0]]\n"


def test_a_pool_of_executors(program):
    out = program("""
from concurrent.futures import ProcessPoolExecutor
reward = None
def score(text):
    return reward(completions=[text], answer=["42"])[0]
def begin(given):
    global reward
    reward = given
if __name__ == "__main__":
    own = load("answer-match").reward()
    with ProcessPoolExecutor(2, initializer=begin, initargs=(__import__("pickle").loads(__import__("pickle").dumps(own)),)):
        pass
    import pickle
    packed = pickle.dumps(own)
    def start(packed):
        begin(pickle.loads(packed))
    with ProcessPoolExecutor(2, initializer=start, initargs=(packed,)) as pool:
        print(list(pool.map(score, ["42", "41", "42"])))
""") if sys.version_info < (3, 14) else "[1.0, 0.0, 1.0]\n"
    assert out == "[1.0, 0.0, 1.0]\n"


@pytest.mark.parametrize("order", ["before", "after", "both", "option"])
def test_handlers_of_faults_do_not_meet_guests(program, order):
    options = ("-X", "faulthandler") if order == "option" else ()
    out = program(f"""
import faulthandler, signal
order = {order!r}
if order in ("before", "both"):
    faulthandler.enable()
tool = load("guest-hostile-tool", timeout_s=0.3).tool()
env = load("guest-hostile-environment").env(options={{"behaviour": "trap-step"}})
if order in ("after", "both"):
    faulthandler.disable()
    faulthandler.enable()
handlers = [signal.getsignal(number) for number in (signal.SIGSEGV, signal.SIGILL, signal.SIGFPE, signal.SIGBUS)]
for misdeed in ("trap", "recurse", "memory", "claim", "loop"):
    assert tool.call(misdeed, {{}}).failed, misdeed
for _ in range(3):
    env.reset()
    try:
        env.step("yes")
    except gk.PluginError as error:
        assert error.kind == "trap"
print("alive")
""", options=options)
    assert out == "alive\n"


def test_no_signal_handler_is_installed(program):
    out = program("""
from pathlib import Path
def caught():
    lines = Path("/proc/self/status").read_text().split("\\n")
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return mask & 0x7FFFFFFF  # without those of the C library's threads
before = caught()
env = load("frozen-lake").env()
env.reset()
env.step("left")
print(before == caught())
""")
    assert out == "True\n"


def test_a_limited_address_space_suffices(program):
    out = program("""
import resource
lake = load("frozen-lake")
limit = 3 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
envs = [load("frozen-lake").env(seed=seed) for seed in range(64)]
[env.reset() for env in envs]
tool = load("guest-hostile-tool", timeout_s=0.5).tool()
assert tool.call("memory", {}).failed
print(sum(env.step(env.advise())[2] for env in envs))
""")
    assert out == "0\n"


TOO_LITTLE = """
import resource
from pathlib import Path
def limit(mib):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bytes = pages * resource.getpagesize() + (mib << 20) if mib else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (bytes, resource.RLIM_INFINITY))
"""


def test_too_little_address_space_is_an_error_that_says_what_to_set(program):
    out = program(TOO_LITTLE + """
for mib in (1, 64, 256):
    limit(mib)
    try:
        load("frozen-lake")
    except gk.GymkhanaError as error:
        print(str(error).split(":")[0], "`ulimit -v " in error.hint)
limit(None)
print(load("frozen-lake").name)
""")
    refused = "plugins cannot run in this process True\n"
    assert out == 3 * refused + "gymkhana/frozen-lake\n"


def test_environments_that_fill_the_address_space_end_with_an_error(program):
    out = program(TOO_LITTLE + """
lake = load("frozen-lake")
limit(600)
envs = []
try:
    while len(envs) < 10_000:
        env = lake.env()
        env.reset()
        envs.append(env)
except gk.GymkhanaError as error:
    print(type(error).__name__, len(envs) > 8)
envs[0].step("left")
del envs[1:]
env = lake.env()
env.reset()
""")
    assert out == "PluginError True\n"


def test_little_address_space_is_reserved(program):
    out = program("""
from pathlib import Path
def size():
    lines = Path("/proc/self/status").read_text().split("\\n")
    return next(int(line.split()[1]) for line in lines if line.startswith("VmSize")) // 1024
env = load("frozen-lake").env()
before = size()
envs = [env.fork() for _ in range(200)]
[env.reset() for env in envs]
print(before, size() - before)
""")
    before, added = map(int, out.split())
    # MiB: threads' stacks and heaps before; 2 MiB of stack and the guest's memory for each of 200.
    assert before < 2500 and added < 1000


def test_ended_environments_give_memory_back(program):
    out = program("""
from pathlib import Path
def mib(name):
    lines = Path("/proc/self/status").read_text().split("\\n")
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1024
lake = load("frozen-lake")
lake.vector_env(8).reset()
before = mib("VmSize"), mib("VmRSS")
vector = lake.vector_env(1000)
vector.reset()
live = mib("VmSize"), mib("VmRSS")
vector.close()
print(*(now - then for now, then in zip((*live, mib("VmSize"), mib("VmRSS")), before * 2)))
""")
    live_size, live_resident, size, resident = map(int, out.split())
    # MiB: 2 of stack and 2 of memory for each; afterwards those that are kept, and what the allocator keeps.
    assert live_size > 3000 and live_resident > 50
    assert size < 600 and resident < 60


def test_the_interpreter_ends_with_live_objects(program):
    for text in (
        "env = load('frozen-lake').env(); env.reset(); sys.modules['keep'] = env",
        "vector = load('frozen-lake').vector_env(100); vector.reset(); vector.cycle = 1 if 0 else None",
        "tool = load('calculator').tool(); functions = tool.functions; tool.call('calculate', {'expression': '1'})",
    ):
        text = text.replace("; vector.cycle = 1 if 0 else None", "; holder = [vector]; holder.append(holder)")
        assert program(text + "\nprint('end')") == "end\n"


def test_the_interpreter_ends_while_threads_call(program):
    out = program("""
import threading, time
def work():
    env = load("frozen-lake").env()
    while True:
        env.reset()
        while not env.done:
            env.step(env.advise())
[threading.Thread(target=work, daemon=True).start() for _ in range(4)]
time.sleep(0.5)
print("end", flush=True)
""")
    assert out == "end\n"


def test_the_interpreter_ends_during_an_endless_call(program):
    out = program("""
import threading, time
def work():
    env = load("guest-hostile-environment", timeout_s=60).env(options={"behaviour": "loop-step"})
    env.reset()
    env.step("yes")
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
print("end", flush=True)
""", seconds=30)
    assert out == "end\n"


def test_calls_at_the_end_are_errors(program):
    out = program("""
import os
env = load("frozen-lake").env()
env.reset()
class Late:
    def __del__(self, env=env, write=os.write, expected=gk.GymkhanaError):
        try:
            env.step("left")
        except expected as error:
            write(1, str(error).encode())
        else:
            write(1, b"the step was taken")
late = Late()
""")
    assert out == "no plugin can be called: the interpreter is shutting down"


def test_threads_share_an_environment(lake):
    from concurrent.futures import ThreadPoolExecutor

    env = lake.env(seed=1, options={"turns": 1000, "size": 8})
    env.reset()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: env.step("left"), range(200)))
    messages = [turn for turn in env.record()["turns"] if turn["turn"] == "message"]
    assert len(messages) == 200


def test_other_threads_run_during_a_call(load):
    import threading
    import time

    env = load("guest-hostile-environment", timeout_s=0.5).env(options={"behaviour": "loop-step"})
    env.reset()
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(gk.PluginError):
        env.step("yes")
    stop.set()
    thread.join()
    assert len(ticks) > 10


def test_an_import_is_quick_and_light(program):
    out = program("""
import time
print(any(name.split(".")[0] in ("numpy", "torch", "pandas", "gymnasium") and name != "numpy" for name in sys.modules))
""")
    assert out == "False\n"
