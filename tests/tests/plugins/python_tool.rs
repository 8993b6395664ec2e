//! The Python interpreter in the sandbox: state, determinism, and attacks that succeed on other systems. Each attack is
//! contained and answered within its limits, and other sessions continue; each has an allowed counterpart.

use std::sync::OnceLock;
use std::time::Duration;

use crate::common::{Table, answers, limits, play, rollout_in};
use gymkhana_record::{Call, FailureKind, NamedValue, Seed, Value, text_of};
use gymkhana_sandbox::{CallError, Grants, Limits, Plugin, Sandbox, SandboxConfig, ToolSession};
use gymkhana_tests::{compiled, component, memory_mappings, run_alone};
use serde_json::json;

/// CPython with SymPy begins with 72 MiB.
const MEMORY: usize = 136 << 20;

/// Shared, so that the interpreter is compiled once. A normal call takes some milliseconds of this budget.
fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let limits = Limits { budget: Duration::from_millis(1500), memory_bytes: MEMORY, ..Limits::default() };
        let cache = Some(compiled());
        let config = SandboxConfig { cache, max_instances: Some(64), limits, ..SandboxConfig::default() };
        Sandbox::new(&config).expect("a sandbox")
    })
}

fn python() -> Plugin {
    Plugin::load(sandbox(), &component("python"), &Grants::default()).expect("a sound plugin")
}

async fn open(seed: u64) -> ToolSession {
    ToolSession::open(&python(), None, &[], Seed(seed)).await.expect("a session")
}

/// Runs a cell. Returns whether it failed, and its output.
async fn run(session: &mut ToolSession, code: &str) -> Result<(bool, String), CallError> {
    let call = Call { id: "1".to_owned(), name: "python".to_owned(), arguments: json!({ "code": code }).to_string() };
    session.call(&call).await.map(|answer| (answer.failed, text_of(&answer.content)))
}

/// Output of a cell that succeeds.
async fn shown(session: &mut ToolSession, code: &str) -> String {
    match run(session, code).await {
        Ok((false, output)) => output,
        other => panic!("{code}: {other:?}"),
    }
}

/// Output of a cell that fails.
async fn refused(session: &mut ToolSession, code: &str) -> String {
    match run(session, code).await {
        Ok((true, output)) => output,
        other => panic!("{code}: {other:?}"),
    }
}

#[tokio::test]
async fn names_persist_and_the_last_expression_is_shown() {
    let mut session = open(1).await;
    assert_eq!(shown(&mut session, "x = 6\ndef f(y):\n    return x * y").await, "(no output)");
    assert_eq!(shown(&mut session, "print('six')\nf(7)").await, "six\n42");
    assert_eq!(shown(&mut session, "_ + 1").await, "43");
    let output = refused(&mut session, "f(1 / 0)").await;
    assert!(output.ends_with("ZeroDivisionError: division by zero"), "{output}");
    assert!(output.contains("f(1 / 0)"), "the line that failed is shown: {output}");
    assert_eq!(shown(&mut session, "x").await, "6", "a failure keeps the state");
    let view = session.final_view().await.expect("it offers a view");
    let value = |name: &str| view.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
    assert_eq!((value("calls"), value("errors")), (Some(Value::Integer(5)), Some(Value::Integer(1))));
    assert_eq!(value("last-value"), Some(Value::Text("6".to_owned())));
}

#[tokio::test]
async fn the_standard_library_and_sympy_are_available() {
    let mut session = open(1).await;
    for (code, output) in [
        ("import statistics; statistics.median([1, 2, 4])", "2"),
        ("from fractions import Fraction\nFraction(1, 3) + Fraction(1, 6)", "Fraction(1, 2)"),
        ("import datetime\n(datetime.date(2024, 3, 1) - datetime.date(2024, 2, 1)).days", "29"),
        ("import re\nre.findall('[0-9]+', 'a1b22')", "['1', '22']"),
        ("import sqlite3\nd = sqlite3.connect(':memory:')\nd.execute('select 6 * 7').fetchall()", "[(42,)]"),
        ("import json, hashlib\nhashlib.sha256(b'').hexdigest()[:8]", "'e3b0c442'"),
        ("from sympy import *\nx = symbols('x')\nintegrate(x * exp(x), x)", "(x - 1)*exp(x)"),
        ("solve(x**2 - 5*x + 6, x)", "[2, 3]"),
        ("simplify(sin(x)**2 + cos(x)**2)", "1"),
    ] {
        assert_eq!(shown(&mut session, code).await, output, "{code}");
    }
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let option = NamedValue { name: "output".to_owned(), value: Value::Integer(100) };
    let mut session = ToolSession::open(&python(), None, &[option], Seed(1)).await.expect("a good option");
    let output = shown(&mut session, "for i in range(1000): print(i)").await;
    assert!(output.starts_with("0\n1\n2\n") && output.ends_with("998\n999"), "{output}");
    // 10 + 180 + 2700 digits and 1000 line ends, minus the 100 characters that were kept.
    assert!(output.contains("… 3790 characters left out …"), "{output}");
}

/// Cells whose output would differ if anything of the machine were visible.
const CELLS: [&str; 6] = [
    "import random, os, uuid, secrets\nrandom.random(), os.urandom(8), uuid.uuid4(), secrets.token_hex(4)",
    "import time, datetime\ntime.time(), time.monotonic(), time.perf_counter_ns(), datetime.datetime.now()",
    "{str(i) for i in range(50)}",
    "hash('a'), id(object()), id([]), object()",
    "random.shuffle(l := list(range(20))); l",
    "import tempfile, threading, sys\nsys.getsizeof(l), threading.get_ident(), os.environ, os.getpid()",
];

async fn transcript(seed: u64) -> Vec<String> {
    let mut session = open(seed).await;
    let mut output = Vec::new();
    for cell in CELLS {
        output.push(shown(&mut session, cell).await);
    }
    output
}

#[tokio::test]
async fn equal_seeds_give_equal_bytes() {
    let first = transcript(7).await;
    assert_eq!(first, transcript(7).await);
    let other = transcript(8).await;
    assert!(first[0] != other[0] && first[4] != other[4], "randomness follows the seed: {first:?}");
    assert_eq!(first[2], other[2], "the order of a set does not");
}

/// A cell that the sandbox ends, the failure, and an allowed counterpart.
struct Attack {
    cell: &'static str,
    ends: &'static [FailureKind],
    twin: (&'static str, &'static str),
}

const FATAL: [Attack; 6] = [
    Attack { cell: "while True: pass", ends: &[FailureKind::Budget], twin: ("for i in range(9): pass\ni", "8") },
    Attack { cell: "10**30000000", ends: &[FailureKind::Budget], twin: ("(10**3000) % 7", "1") },
    Attack { cell: "import os\nos._exit(0)", ends: &[FailureKind::Trap], twin: ("import os\nos.getcwd()", "'/'") },
    Attack { cell: "import os\nos.abort()", ends: &[FailureKind::Trap], twin: ("import os\nos.sep", "'/'") },
    Attack {
        cell: "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        ends: &[FailureKind::Trap, FailureKind::Memory],
        twin: ("def f(n): return n and f(n - 1)\nf(500)", "0"),
    },
    Attack {
        cell: "l = []\nwhile True:\n    try: l.append(bytearray(1 << 20))\n    except MemoryError: pass",
        ends: &[FailureKind::Budget, FailureKind::Memory],
        twin: ("len(bytearray(20 << 20))", "20971520"),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_ended_by_the_sandbox_affects_only_its_session() {
    let mut neighbour = open(2).await;
    shown(&mut neighbour, "kept = 1").await;
    for (number, attack) in FATAL.iter().enumerate() {
        let mut session = open(1).await;
        shown(&mut session, "before = 1").await;
        let error = run(&mut session, attack.cell).await.expect_err(attack.cell);
        assert!(attack.ends.contains(&error.kind), "{}: {error:?}", attack.cell);
        assert!(run(&mut session, "before").await.is_err(), "its state is lost");
        let mut fresh = open(1).await;
        assert_eq!(shown(&mut fresh, attack.twin.0).await, attack.twin.1, "{}", attack.twin.0);
        assert_eq!(shown(&mut neighbour, "kept += 1; kept").await, (number + 2).to_string());
    }
}

/// Cells that fail, the text of the failure, and an allowed counterpart.
const REFUSED: [(&str, &str, (&str, &str)); 13] = [
    ("open('/etc/passwd').read()", "no files here", ("import io; io.StringIO('a').read()", "'a'")),
    ("open('/tmp/x', 'w')", "no files here", ("import io; io.StringIO().write('ab')", "2")),
    ("import io; io.FileIO('/etc/passwd')", "Error", ("import io; io.BytesIO(b'a').read()", "b'a'")),
    ("import posix; posix.open('/etc/passwd', 0)", "Error", ("import posix; posix.strerror(44) != ''", "True")),
    ("import os; getattr(os, 'sys' + 'tem')('id')", "no other programs", ("import os; os.name", "'posix'")),
    ("import subprocess; subprocess.run(['id'])", "Error", ("import shlex; shlex.split('a b')", "['a', 'b']")),
    (
        "import urllib.request as r; r.urlopen('http://1.1.1.1')",
        "no network",
        ("import urllib.parse as p; p.quote(' ')", "'%20'"),
    ),
    ("bytearray(4 << 30)", "Error", ("len(bytearray(1 << 20))", "1048576")),
    ("[0] * 10**9", "MemoryError", ("len([0] * 10**6)", "1000000")),
    ("import json; json.loads('[' * 2000)", "Error", ("import json; json.loads('[' * 50 + ']' * 50) != []", "True")),
    ("eval('(' * 5000 + ')' * 5000)", "Error", ("eval('(' * 50 + '7' + ')' * 50)", "7")),
    ("input('?')", "nobody to ask", ("'?'", "'?'")),
    ("import sys; sys.exit(1)", "the interpreter goes on", ("import sys; sys.byteorder", "'little'")),
];

#[tokio::test]
async fn unavailable_features_fail_and_keep_the_state() {
    let mut session = open(3).await;
    shown(&mut session, "kept = 7").await;
    for (cell, words, twin) in REFUSED {
        let output = refused(&mut session, cell).await;
        assert!(output.contains(words), "{cell}: {output}");
        assert!(output.len() < 3000, "{cell}: {output}");
        assert_eq!(shown(&mut session, twin.0).await, twin.1, "{}", twin.0);
    }
    assert_eq!(shown(&mut session, "kept").await, "7");
}

/// In an episode, an attack is an observation, the interpreter restarts, and a replay sees the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_in_an_episode_is_an_observation_and_replayed() {
    let table = Table::new().tool("python", &[]);
    let rollout = rollout_in(sandbox(), &table, limits(), 0).await;
    let cell = |code: &str| crate::common::call("python", &json!({ "code": code }).to_string());
    let cells = ["x = 1\nimport random; random.random()", "while True: pass", "'x' in dir()", "20 + 1"].map(cell);
    let replies: Vec<&str> = cells.iter().map(String::as_str).chain(["done"]).collect();
    let record = play(&rollout, &replies).await;
    let output = answers(&record);
    assert!(output[1].1 && output[1].0.contains("ran out of time"), "{output:?}");
    assert_eq!((output[2].0.as_str(), output[3].0.as_str()), ("False", "21"), "{output:?}");
    let again = rollout.replay_group(std::slice::from_ref(&record)).await.expect("no fault of the host").remove(0);
    assert_eq!(answers(&again), output);
    assert_eq!(again.segments, record.segments);
}

/// `places_for` assumes four memory mappings per place, and this plugin takes two places.
#[test]
fn a_live_interpreter_takes_at_most_the_mappings_of_its_two_places() {
    run_alone("python_tool::twenty_interpreters_take_at_most_their_mappings");
}

#[tokio::test]
#[ignore = "measures its process, which the test above starts"]
async fn twenty_interpreters_take_at_most_their_mappings() {
    assert_eq!(python().places(), 2);
    let mut sessions = vec![open(1).await];
    let before = memory_mappings();
    for seed in 0..20 {
        let mut session = open(seed).await;
        // Makes its memory grow as well.
        shown(&mut session, "kept = bytearray(8 << 20); len(kept)").await;
        sessions.push(session);
    }
    let taken = memory_mappings() - before;
    assert!(taken <= 20 * 8, "{taken} mappings for 20 live interpreters");
}
