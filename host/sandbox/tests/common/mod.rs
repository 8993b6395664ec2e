//! Finds real components and sets up small sandboxes for them.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use gymkhana_record::{Call, NamedValue, Part, TaskRef, Value};
use gymkhana_sandbox::{Grants, Limits, LogLine, LogSink, Plugin, Sandbox, SandboxConfig, ToolOutput};

/// The file of a first-party plugin or a guest.
pub fn component(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let built = target.join(format!("wasm32-wasip2/release/{}.wasm", name.replace('-', "_")));
    [target.join(format!("plugins/{name}.wasm")), built]
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("the component `{name}` is not built; run `cargo xtask plugins`"))
}

/// Few places, since tests run in parallel and each sandbox reserves addresses.
pub fn config() -> SandboxConfig {
    SandboxConfig {
        limits: Limits { budget: Duration::from_millis(300), memory_bytes: 32 << 20, ..Limits::default() },
        max_instances: Some(32),
        ..SandboxConfig::default()
    }
}

pub fn sandbox() -> Sandbox {
    Sandbox::new(&config()).expect("a small sandbox")
}

pub fn load(sandbox: &Sandbox, name: &str) -> Plugin {
    Plugin::load(sandbox, &component(name), &Grants::default()).expect("a sound plugin")
}

/// A plugin in a sandbox that all tests of this program share, so that each is compiled once.
pub fn plugin(name: &str) -> Plugin {
    static SHARED: OnceLock<Sandbox> = OnceLock::new();
    load(SHARED.get_or_init(sandbox), name)
}

/// Collects a plugin's log.
#[derive(Default)]
pub struct Collected(Mutex<Vec<LogLine>>);

impl Collected {
    /// Takes the lines since the last call of this method.
    pub fn take(&self) -> Vec<LogLine> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

impl LogSink for Collected {
    fn write(&self, lines: Vec<LogLine>) {
        self.0.lock().expect("no panic").extend(lines);
    }
}

/// The plugin with a sink for its log.
pub fn logging(plugin: &Plugin) -> (Plugin, Arc<Collected>) {
    let log = Arc::new(Collected::default());
    (plugin.with_log_sink(Arc::clone(&log) as Arc<dyn LogSink>), log)
}

pub fn call(name: &str, arguments: &str) -> Call {
    Call { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

pub fn text_of(answer: &ToolOutput) -> String {
    gymkhana_record::text_of(&answer.content)
}

pub fn text(words: &str) -> Vec<Part> {
    vec![Part::Text(words.to_owned())]
}

pub fn train(index: u64) -> TaskRef {
    TaskRef { split: "train".to_owned(), index }
}

pub fn option(name: &str, value: &str) -> NamedValue {
    NamedValue { name: name.to_owned(), value: Value::Text(value.to_owned()) }
}
