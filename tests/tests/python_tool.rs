//! The Python interpreter in the sandbox: its state, its determinism, and the attacks that beat other systems. Each
//! attack is contained, answered within its limits, and its neighbours do not notice; each has a twin that is allowed.

mod common;

use std::sync::OnceLock;
use std::time::Duration;

use common::{Table, answers, limits, play, rollout_in};
use gymkhana_record::{Call, FailureKind, NamedValue, Seed, Value, text_of};
use gymkhana_sandbox::{CallError, Grants, Limits, Plugin, Sandbox, SandboxConfig, ToolSession};
use gymkhana_tests::component;
use serde_json::json;

/// Shared, so that the interpreter is compiled once. An honest call here takes some milliseconds of this budget.
fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let limits = Limits { budget: Duration::from_millis(1500), ..Limits::default() };
        let config = SandboxConfig { max_instances: Some(64), limits, ..SandboxConfig::default() };
        Sandbox::new(&config).expect("a sandbox")
    })
}

fn python() -> Plugin {
    Plugin::load(sandbox(), &component("python"), &Grants::default()).expect("a sound plugin")
}

async fn open(seed: u64) -> ToolSession {
    ToolSession::open(&python(), None, &[], Seed(seed)).await.expect("a session")
}

/// Runs a cell; whether it failed, and what it said.
async fn run(session: &mut ToolSession, code: &str) -> Result<(bool, String), CallError> {
    let call = Call { id: "1".to_owned(), name: "python".to_owned(), arguments: json!({ "code": code }).to_string() };
    session.call(&call).await.map(|answer| (answer.failed, text_of(&answer.content)))
}

/// What a cell that works says.
async fn shown(session: &mut ToolSession, code: &str) -> String {
    match run(session, code).await {
        Ok((false, said)) => said,
        other => panic!("{code}: {other:?}"),
    }
}

/// What a cell that fails says.
async fn refused(session: &mut ToolSession, code: &str) -> String {
    match run(session, code).await {
        Ok((true, said)) => said,
        other => panic!("{code}: {other:?}"),
    }
}

#[tokio::test]
async fn names_stay_and_the_last_expression_is_shown() {
    let mut session = open(1).await;
    assert_eq!(shown(&mut session, "x = 6\ndef f(y):\n    return x * y").await, "(no output)");
    assert_eq!(shown(&mut session, "print('six')\nf(7)").await, "six\n42");
    assert_eq!(shown(&mut session, "_ + 1").await, "43");
    let said = refused(&mut session, "f(1 / 0)").await;
    assert!(said.ends_with("ZeroDivisionError: division by zero"), "{said}");
    assert!(said.contains("f(1 / 0)"), "the line that failed is shown: {said}");
    assert_eq!(shown(&mut session, "x").await, "6", "a failure costs no state");
    let view = session.final_view().await.expect("it offers a view");
    let value = |name: &str| view.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
    assert_eq!((value("calls"), value("errors")), (Some(Value::Integer(5)), Some(Value::Integer(1))));
    assert_eq!(value("last-value"), Some(Value::Text("6".to_owned())));
}

#[tokio::test]
async fn the_library_and_sympy_are_there() {
    let mut session = open(1).await;
    for (code, said) in [
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
        assert_eq!(shown(&mut session, code).await, said, "{code}");
    }
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let option = NamedValue { name: "output".to_owned(), value: Value::Integer(100) };
    let mut session = ToolSession::open(&python(), None, &[option], Seed(1)).await.expect("a good option");
    let said = shown(&mut session, "for i in range(1000): print(i)").await;
    assert!(said.starts_with("0\n1\n2\n") && said.ends_with("998\n999"), "{said}");
    // 10 + 180 + 2700 digits and 1000 line ends, less the 100 that were kept.
    assert!(said.contains("… 3790 characters left out …"), "{said}");
}

/// Cells whose answers would differ if anything of the machine came through.
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
    let mut said = Vec::new();
    for cell in CELLS {
        said.push(shown(&mut session, cell).await);
    }
    said
}

#[tokio::test]
async fn equal_seeds_give_equal_bytes() {
    let first = transcript(7).await;
    assert_eq!(first, transcript(7).await);
    let other = transcript(8).await;
    assert!(first[0] != other[0] && first[4] != other[4], "randomness follows the seed: {first:?}");
    assert_eq!(first[2], other[2], "the order of a set does not");
}

/// A cell that the sandbox ends, and how; its twin does the same in a measure that is allowed.
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
async fn a_cell_that_the_sandbox_ends_costs_its_own_session_and_no_other() {
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

/// Cells that are answered by a failure, with what it says, and the twin that works.
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
async fn what_is_not_there_is_answered_and_the_state_stays() {
    let mut session = open(3).await;
    shown(&mut session, "kept = 7").await;
    for (cell, words, twin) in REFUSED {
        let said = refused(&mut session, cell).await;
        assert!(said.contains(words), "{cell}: {said}");
        assert!(said.len() < 3000, "{cell}: {said}");
        assert_eq!(shown(&mut session, twin.0).await, twin.1, "{}", twin.0);
    }
    assert_eq!(shown(&mut session, "kept").await, "7");
}

/// In an episode: an attack is an observation, the interpreter begins anew, and a replay sees the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_an_episode_a_timeout_is_an_observation_and_a_replay_sees_it_again() {
    let table = Table::new().tool("python", &[]);
    let rollout = rollout_in(sandbox(), &table, limits(), 0).await;
    let cell = |code: &str| common::call("python", &json!({ "code": code }).to_string());
    let cells = ["x = 1\nimport random; random.random()", "while True: pass", "'x' in dir()", "20 + 1"].map(cell);
    let replies: Vec<&str> = cells.iter().map(String::as_str).chain(["done"]).collect();
    let record = play(&rollout, &replies).await;
    let said = answers(&record);
    assert!(said[1].1 && said[1].0.contains("ran out of time"), "{said:?}");
    assert_eq!((said[2].0.as_str(), said[3].0.as_str()), ("False", "21"), "{said:?}");
    let again = rollout.replay_group(std::slice::from_ref(&record)).await.expect("no fault of the host").remove(0);
    assert_eq!(answers(&again), said);
    assert_eq!(again.segments, record.segments);
}

/// `places_for` counts on four memory mappings for each place, and such a plugin takes two places.
#[tokio::test]
async fn a_live_interpreter_takes_at_most_the_mappings_of_its_two_places() {
    let plugin = python();
    assert_eq!(plugin.places(), 2);
    let mappings = || std::fs::read_to_string("/proc/self/maps").expect("Linux").lines().count();
    let mut sessions = vec![open(1).await];
    let before = mappings();
    for seed in 0..20 {
        let mut session = open(seed).await;
        // Its memory grows, too.
        shown(&mut session, "kept = bytearray(8 << 20); len(kept)").await;
        sessions.push(session);
    }
    let taken = mappings() - before;
    // The other tests of this program, in threads beside, add some of their own.
    assert!(taken < 20 * 8 + 100, "{taken} mappings for 20 live interpreters");
}
