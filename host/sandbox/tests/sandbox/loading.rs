//! Loading: bad files are refused before compilation, and each plugin is compiled once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::common::{call, component, config, sandbox, text_of};
use gymkhana_record::Seed;
use gymkhana_sandbox::{
    CacheError, CacheFolder, CompilerEffort, Grants, Limits, LoadError, Plugin, Sandbox, SandboxConfig, SandboxError,
    ToolSession,
};

/// The error and all its causes, as a person reads them.
fn explained(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

fn refusal(sandbox: &Sandbox, bytes: &[u8]) -> String {
    let error = Plugin::from_bytes(sandbox, "bad.wasm", bytes, &Grants::default()).expect_err("a bad file");
    let explained = explained(&error);
    assert!(explained.contains("`bad.wasm`"), "the file is named: {explained}");
    explained
}

#[test]
fn bad_files_are_refused_by_name_and_never_compiled() {
    let sandbox = sandbox();
    let good = fs::read(component("guest-echo")).expect("built");
    let contract = gymkhana_registry::contract::digest().to_string();
    let other_contract = replaced(&good, contract.as_bytes(), "0".repeat(64).as_bytes());
    for (bytes, word) in [
        (&b""[..], "empty"),
        (b"#!/bin/sh\n", "not WebAssembly"),
        (b"\0asm\x01\0\0\0", "core module"),
        (b"\0asm\x0d\0\x01\0", "no manifest"),
        (&good[..good.len() / 2], "truncated"),
        (&other_contract, "rebuild"),
    ] {
        let explained = refusal(&sandbox, bytes);
        assert!(explained.contains(word), "{word}: {explained}");
    }
    let missing = Plugin::load(&sandbox, Path::new("/no/such.wasm"), &Grants::default()).expect_err("missing");
    assert!(explained(&missing).contains("/no/such.wasm"), "{missing}");
    assert_eq!(sandbox.counters().compiled, 0);
}

#[test]
fn a_plugin_that_asks_for_what_it_is_not_granted_is_refused_before_it_is_compiled() {
    let sandbox = sandbox();
    let good = fs::read(component("guest-echo")).expect("built");
    // Six bytes more than the empty list, taken from the description so that the section keeps its length.
    let asking = replaced(&good, b"\"capabilities\":[]", b"\"capabilities\":[\"http\"]");
    let asking = replaced(&asking, b"\"description\":\"Answers", b"\"description\":\"A");
    let explained = refusal(&sandbox, &asking);
    assert!(explained.contains("`http`") && explained.contains("does not grant"), "{explained}");
    let importing = replaced(&good, b"wasi:cli/exit@", b"wasi:cla/exit@");
    let explained = refusal(&sandbox, &importing);
    assert!(explained.contains("`wasi:cla/exit@"), "{explained}");
    assert_eq!(sandbox.counters().compiled, 0);
}

/// A manifest with wrong kinds is detected before compilation.
#[test]
fn a_manifest_that_lies_about_its_kinds_is_refused() {
    let sandbox = sandbox();
    let tool = fs::read(component("guest-hostile-tool")).expect("built");
    // Two bytes more, taken from the description so that the section keeps its length.
    let lying = replaced(&tool, b"\"kinds\":[\"tool\"]", b"\"kinds\":[\"reward\"]");
    let lying = replaced(&lying, b"\"description\":\"Hostile to", b"\"description\":\"Hostile ");
    let explained = refusal(&sandbox, &lying);
    assert!(explained.contains("disagree about kind `tool`"), "{explained}");
    assert_eq!(sandbox.counters().compiled, 0);
    assert!(Plugin::from_bytes(&sandbox, "honest", &tool, &Grants::default()).is_ok());
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    let (mut rest, mut found) = (bytes, false);
    while let Some(at) = rest.windows(old.len()).position(|window| window == old) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(new);
        rest = &rest[at + old.len()..];
        found = true;
    }
    assert!(found, "{} is in the file", String::from_utf8_lossy(old));
    result.extend_from_slice(rest);
    result
}

fn with_cache(folder: &Path) -> Result<Sandbox, SandboxError> {
    Sandbox::new(&SandboxConfig { cache: Some(folder.to_owned()), ..config() })
}

fn load(sandbox: &Sandbox) -> Plugin {
    Plugin::load(sandbox, &component("guest-echo"), &Grants::default()).expect("a sound plugin")
}

fn file_with(folder: &Path, extension: &str) -> PathBuf {
    let files = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("an entry").path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == extension)).expect("the cache has it")
}

#[test]
fn compiled_code_is_kept_and_a_damaged_file_is_compiled_again() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("code");
    let compiled = |sandbox: &Sandbox| (sandbox.counters().compiled, sandbox.counters().cache_hits);

    let first = with_cache(&folder).expect("made");
    load(&first);
    assert_eq!(compiled(&first), (1, 0));
    assert_eq!(fs::metadata(&folder).expect("made").permissions().mode() & 0o777, 0o700);

    let second = with_cache(&folder).expect("opened");
    load(&second);
    load(&second);
    assert_eq!(compiled(&second), (0, 1), "from disk once, then from memory");

    let code = file_with(&folder, "code");
    let mut bytes = fs::read(&code).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&code, &bytes).expect("written");
    let third = with_cache(&folder).expect("opened");
    load(&third);
    assert_eq!(compiled(&third), (1, 0), "a flipped bit is detected");

    // A whole file of another origin with a stamp that fits is still not this engine's code.
    fs::write(&code, b"not code").expect("written");
    // Its XXH64 by another program.
    fs::write(file_with(&folder, "xxh64"), "3d0dfcd4e3d38576").expect("written");
    let fourth = with_cache(&folder).expect("opened");
    load(&fourth);
    assert_eq!(compiled(&fourth), (1, 0));
    let fifth = with_cache(&folder).expect("opened");
    load(&fifth);
    assert_eq!(compiled(&fifth), (0, 1), "it was compiled again");
}

#[test]
fn plugins_with_the_same_runtime_compile_it_once() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("code");
    let sandbox = || {
        let config = SandboxConfig { cache: Some(folder.clone()), effort: CompilerEffort::Quick, ..config() };
        Sandbox::new(&config).expect("made")
    };
    let load = |sandbox: &Sandbox, name| {
        Plugin::load(sandbox, &component(name), &Grants::default()).expect("a sound plugin");
        (sandbox.counters().compiled, sandbox.counters().cache_hits)
    };
    let bytes = || -> u64 {
        let files = fs::read_dir(&folder).expect("listed").map(|entry| entry.expect("an entry"));
        files.map(|entry| entry.metadata().expect("a file").len()).sum()
    };
    let first = sandbox();
    // The interpreter, the C library and a third module, beside the plugin itself.
    assert_eq!(load(&first, "guest-python-environment"), (4, 0));
    let of_one = bytes();
    assert_eq!(load(&first, "guest-python-reward"), (5, 0));
    let of_two = bytes();
    assert!(of_two - of_one < of_one / 2, "{of_one} bytes, then {of_two}");
    assert_eq!(load(&sandbox(), "guest-python-reward"), (0, 4), "from disk");
}

#[test]
fn a_compilation_is_announced_and_a_cached_plugin_is_not() {
    let parent = tempfile::tempdir().expect("a folder");
    let size = fs::metadata(component("guest-echo")).expect("a component").len() as usize;
    let announced = || {
        let (sender, receiver) = std::sync::mpsc::channel();
        let hook = move |plugin: &str, bytes: usize| sender.send((plugin.to_owned(), bytes)).expect("a receiver");
        let sandbox = with_cache(&parent.path().join("code")).expect("made").on_compile(hook);
        let manifest = load(&sandbox).manifest().clone();
        load(&sandbox);
        let name = format!("{} {}", manifest.name, manifest.version);
        (name, receiver.try_iter().collect::<Vec<_>>())
    };
    let (name, once) = announced();
    assert_eq!(once, [(name, size)], "compiled once, then from memory");
    assert!(announced().1.is_empty(), "from disk");
}

#[test]
fn a_used_entry_gets_a_new_time_and_an_entry_beyond_the_limit_is_removed() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("code");
    let plugin = load(&with_cache(&folder).expect("made"));
    let entry = || CacheFolder::new(&folder).entries().expect("listed").pop();
    let first = entry().expect("stored");
    let manifest = plugin.manifest();
    assert_eq!(first.plugin, Some(format!("{} {}", manifest.name, manifest.version)));
    assert_eq!(first.component, plugin.digest());

    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
    for extension in ["code", "xxh64"] {
        let file = fs::File::options().write(true).open(file_with(&folder, extension)).expect("opened");
        file.set_modified(long_ago).expect("set");
    }
    assert_eq!(entry().expect("stored").last_used, long_ago);
    load(&with_cache(&folder).expect("opened"));
    assert!(entry().expect("stored").last_used >= first.last_used, "a use sets the time");

    fs::remove_file(file_with(&folder, "code")).expect("removed");
    let small = SandboxConfig { cache: Some(folder.clone()), cache_bytes: 1, ..config() };
    load(&Sandbox::new(&small).expect("opened"));
    assert_eq!(entry(), None, "the new entry exceeds the limit");
}

#[test]
fn a_cache_that_others_can_reach_is_refused() {
    let parent = tempfile::tempdir().expect("a folder");
    let open = parent.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o770)).expect("set");
    assert!(matches!(with_cache(&open), Err(SandboxError::Cache(CacheError::NotOurs(path))) if path == open));

    fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).expect("set");
    let link = parent.path().join("link");
    std::os::unix::fs::symlink(&open, &link).expect("linked");
    assert!(matches!(with_cache(&link), Err(SandboxError::Cache(CacheError::NotAFolder(path))) if path == link));

    let file = parent.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(matches!(with_cache(&file), Err(SandboxError::Cache(CacheError::NotAFolder(path))) if path == file));
}

#[test]
fn concurrent_loads_compile_once() {
    let sandbox = sandbox();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| load(&sandbox));
        }
    });
    assert_eq!(sandbox.counters().compiled, 1);
}

#[test]
fn more_instances_than_the_machine_holds_are_refused() {
    for wanted in [0, u32::MAX] {
        let refused = Sandbox::new(&SandboxConfig { max_instances: Some(wanted), ..config() });
        assert!(matches!(refused, Err(SandboxError::Instances { .. })), "{wanted}");
    }
}

#[test]
fn a_file_error_is_a_message_and_a_hint() {
    let error = Plugin::load(&sandbox(), Path::new("/no/such.wasm"), &Grants::default()).expect_err("missing");
    assert!(matches!(error, LoadError::File(_)));
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("/no/such.wasm") && lines[1].starts_with("hint: "), "{text}");
}

/// The Python tool, whose language runtime the quick compiler compiles.
#[tokio::test]
async fn quickly_compiled_code_computes_the_same() {
    let limits = Limits { budget: Duration::from_secs(5), memory_bytes: 128 << 20, ..config().limits };
    let quick = SandboxConfig { effort: CompilerEffort::Quick, limits, ..config() };
    let sandbox = Sandbox::new(&quick).expect("a sandbox");
    let python = crate::common::load(&sandbox, "python");
    let mut session = ToolSession::open(&python, None, &[], Seed(1)).await.expect("a session");
    let code = r#"{"code": "sorted(x * x % 7 for x in range(10)), sum(x / 4 for x in range(9))"}"#;
    let answer = session.call(&call("python", code)).await.expect("a result");
    assert_eq!(text_of(&answer), "([0, 0, 1, 1, 1, 2, 2, 4, 4, 4], 9.0)");
}
