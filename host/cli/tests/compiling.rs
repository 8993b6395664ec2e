//! The program as a compiler of plugins: its limits, and results that are not believed unchecked.

use std::fs;
use std::path::Path;
use std::time::Duration;

mod common;

use common::Desk;
use gymkhana_record::Seed;
use gymkhana_sandbox::{
    Compiler, CompilerProgram, Grants, Limits, LoadError, Plugin, Sandbox, SandboxConfig, ToolSession,
};
use gymkhana_tests::component;

/// The program under test, with the default limits.
fn program() -> CompilerProgram {
    CompilerProgram { program: env!("CARGO_BIN_EXE_host").into(), ..CompilerProgram::default() }
}

fn sandbox(compiler: CompilerProgram, cache: Option<&Path>, limits: Limits) -> Sandbox {
    let compiler = Compiler::Program(compiler);
    let config = SandboxConfig {
        compiler,
        cache: cache.map(Path::to_owned),
        limits,
        max_instances: Some(8),
        ..SandboxConfig::default()
    };
    Sandbox::new(&config).expect("a sandbox")
}

fn load(sandbox: &Sandbox, bytes: &[u8]) -> Result<Plugin, LoadError> {
    Plugin::from_bytes(sandbox, "x.wasm", bytes, &Grants::default())
}

fn calculator() -> Vec<u8> {
    fs::read(component("calculator")).expect("built")
}

fn compile_with(compiler: CompilerProgram) -> LoadError {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("code");
    let error = load(&sandbox(compiler, Some(&cache), Limits::default()), &calculator()).expect_err("a failure");
    assert_eq!(fs::read_dir(&cache).expect("made").count(), 0, "nothing was stored");
    error
}

#[tokio::test]
async fn another_process_compiles_once_and_for_each_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("code");
    let fuel = Limits { fuel_per_call: Some(1 << 40), ..Limits::default() };
    for limits in [Limits::default(), fuel] {
        for (compiled, cache_hits) in [(1, 0), (0, 1)] {
            let sandbox = sandbox(program(), Some(&cache), limits);
            let plugin = load(&sandbox, &calculator()).expect("a sound plugin");
            ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
            assert_eq!((sandbox.counters().compiled, sandbox.counters().cache_hits), (compiled, cache_hits));
        }
    }
}

#[test]
fn memory_of_the_compiler_is_bounded() {
    let error = compile_with(CompilerProgram { memory_bytes: 96 << 20, ..program() });
    assert!(matches!(error, LoadError::CompileMemory { limit, .. } if limit == 96 << 20), "{error:?}");
    assert!(error.to_string().contains("limit of 96 MiB"), "{error}");
    load(&sandbox(program(), None, Limits::default()), &calculator()).expect("within the default");
}

#[test]
fn time_of_the_compiler_is_bounded() {
    // No process starts and compiles in a microsecond.
    let deadline = Duration::from_micros(1);
    let error = compile_with(CompilerProgram { deadline, ..program() });
    assert!(matches!(error, LoadError::CompileTime { limit, .. } if limit == deadline), "{error:?}");
}

/// The process is stopped by a signal before it reads the component.
#[test]
fn a_stopped_compiler_is_named_and_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    let script = format!("echo $$ > {}; kill -s STOP $$", pid.display());
    let (program, arguments) = ("/bin/sh".into(), vec!["-c".into(), script.into()]);
    let deadline = Duration::from_secs(1);
    let error = compile_with(CompilerProgram { program, arguments, deadline, ..CompilerProgram::default() });
    assert!(matches!(error, LoadError::CompileTime { limit, .. } if limit == deadline), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("x.wasm") && text.contains("1 s"), "{text}");
    let pid = fs::read_to_string(pid).expect("it was started");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} is left");
}

#[test]
fn output_of_another_program_is_not_believed() {
    for (other, reason) in [
        ("/bin/echo", "damaged"),
        ("/bin/true", "damaged"),
        ("/bin/false", "status 1"),
        ("/no/such", "cannot be started"),
    ] {
        let error = compile_with(CompilerProgram { program: other.into(), ..program() });
        assert!(matches!(&error, LoadError::Compiler { why, .. } if why.contains(reason)), "{other}: {error:?}");
    }
}

/// The calculator with a type of this many component types, one in the other.
fn with_deep_type(depth: usize) -> Vec<u8> {
    // A component type with one declaration, which is a type.
    let content = [&[1][..], &[0x41, 0x01, 0x01].repeat(depth), &[0x41, 0x00]].concat();
    let mut length = vec![];
    let mut rest = content.len();
    while rest > 0x7f {
        length.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    length.push(rest as u8);
    [&calculator()[..], &[7], &length, &content].concat()
}

#[test]
fn a_component_that_ends_its_compiler_does_not_end_the_host() {
    let sandbox = sandbox(program(), None, Limits::default());
    let error = load(&sandbox, &with_deep_type(1_000_000)).expect_err("the compiler's stack is smaller");
    assert!(matches!(error, LoadError::Compiler { .. } | LoadError::Engine { .. }), "{error:?}");
    load(&sandbox, &with_deep_type(5)).expect("a type of usual depth");
}

#[test]
fn a_refused_component_is_one_message_of_the_program() {
    let desk = Desk::new();
    let text = "(component (component $a (component $b) ".to_owned()
        + &"(instance (instantiate $b))".repeat(40)
        + ") "
        + &"(instance (instantiate $a))".repeat(40)
        + ")";
    desk.write("bomb.wasm", wat::parse_str(text).expect("sound text"));
    let message = desk.host(&["plugin", "bench", "bomb.wasm"]).mistake("a bomb");
    assert!(message.contains("instances: 1640 of at most 1000"), "{message}");
}
