//! Runs the binary `host` as a user does: in its own folder, checking exit code, output and files only.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod agents;
pub mod bus;
pub mod clock;
pub mod gateway;
pub mod hub;
pub mod killed;
pub mod model_server;
pub mod models;
pub mod namespace;
pub mod served;
pub mod server;
pub mod taught;
pub mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gymkhana_record::EpisodeRecord;
use gymkhana_registry::Digest;
use gymkhana_store::RunReader;
use gymkhana_tests::component;

/// Plugins of word problems, as an argument of `--plugins`.
pub const WORD_PROBLEMS: &str = "plugins/word-problems.wasm,plugins/calculator.wasm,plugins/answer-match.wasm";

/// The smallest run with all features: two stages, tool calls, evaluations before and after. Calls cost points, so that
/// rewards of an untrained model vary and its weights change.
pub const SMALL_RUN: &str = r#"
seed = 1
success = "answer-match.correct"

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 320 }

[plugins.answer-match]
options = { per-call-cost = 0.5 }

[limits]
turns = 3
reply_tokens = 32

[evaluation]
tasks = 4

[[stages]]
kind = "sft"
steps = 2
batch = 4
checkpoint_every = 1

[[stages]]
kind = "rl"
steps = 2
groups = 4
group_size = 4
optimizer = { learning_rate = 1e-2 }
"#;

/// A run of small groups without evaluations, and without its stages.
const SMALL_GROUPS: &str = r#"
seed = 3
success = "answer-match.correct"
limits = { turns = 2, reply_tokens = 24 }
evaluation = { tasks = 0 }
plugins.answer-match.options = { per-call-cost = 0.5 }

[policy]
max_concurrent_sequences = 12
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 320 }
"#;

/// Component of a game with two seats.
pub const TIC_TAC_TOE: &str = "plugins/tic-tac-toe.wasm";

/// The smallest run of a game. Half of the squares are taken, and the model learns only that a move is a digit: most
/// moves are illegal, and rewards vary.
pub const SMALL_GAME: &str = r#"
seed = 1
success = "environment.success"
limits = { turns = 8, reply_tokens = 2 }
evaluation = { tasks = 2, sampled = false }
environment = { options = { opening = 4 } }

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }

[[stages]]
kind = "sft"
steps = 30
batch = 4
checkpoint_every = 10
optimizer = { learning_rate = 2e-2 }

[[stages]]
kind = "rl"
steps = 4
groups = 4
group_size = 4
optimizer = { learning_rate = 1e-2 }
"#;

/// Outcome of a command.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code; absent if a signal ended the process.
    pub code: Option<i32>,
    /// Standard output.
    pub results: String,
    /// Standard error.
    pub talk: String,
}

impl Outcome {
    /// Standard output of a successful command.
    pub fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.results
    }

    /// Message of a user error under a title; there are no other results than those of finished stages.
    pub fn mistake(&self, title: &str) -> String {
        assert_eq!(self.code, Some(2), "{title}: {self:?}");
        assert!(
            self.results.lines().all(|line| line.starts_with("stage ")),
            "{title}: a mistake has no result: {self:?}"
        );
        assert_eq!(self.talk.matches("error: ").count(), 1, "{title}: {}", self.talk);
        assert!(!self.talk.contains("panicked"), "{title}: {}", self.talk);
        format!("--- {title}\n{}\n", self.talk.trim_end())
    }
}

/// A working folder; `plugins` in it holds the components.
pub struct Desk {
    folder: tempfile::TempDir,
}

/// Fills or frees the disk of a process: files cannot grow while it is full.
pub fn fill(process: &std::process::Child, is_full: bool) {
    let pid = rustix::process::Pid::from_child(process);
    let file_size = rustix::process::Resource::Fsize;
    let limit = rustix::process::Rlimit { current: is_full.then_some(1), maximum: None };
    rustix::process::prlimit(Some(pid), file_size, limit).expect("the limit can be set");
}

impl Desk {
    /// A desk without files except the plugins.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plugins = component("word-problems").parent().expect("components lie in a folder").to_owned();
        std::os::unix::fs::symlink(plugins, folder.path().join("plugins")).expect("a link to the plugins");
        Self { folder }
    }

    /// A desk with this text as `run.toml`.
    pub fn with_run_file(text: &str) -> Self {
        let desk = Self::new();
        desk.write("run.toml", text);
        desk
    }

    /// A desk with `examples/runs/NAME` as `run.toml`.
    pub fn of_example(name: &str) -> Self {
        let path = gymkhana_tests::root().join("examples/runs").join(name);
        Self::with_run_file(&fs::read_to_string(path).expect("an example"))
    }

    /// A desk with [`SMALL_RUN`] in deterministic mode, with stages of this many steps.
    pub fn deterministic(steps: u32) -> Self {
        let longer = SMALL_RUN.replace("steps = 2", &format!("steps = {steps}"));
        Self::with_run_file(&format!("deterministic = true\n{longer}"))
    }

    /// A desk with a run of small groups whose calls cost points, which ends with these stages.
    pub fn of_groups(stages: &str) -> Self {
        Self::with_run_file(&format!("{SMALL_GROUPS}\n{stages}\n"))
    }

    /// The desk with a further file; folders above it are made.
    pub fn with_file(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::create_dir_all(self.path(name).parent().expect("a folder")).expect("a folder");
        self.write(name, bytes);
        self
    }

    /// The desk with a tiny model in `model`, with random weights of this seed and a context length in tokens.
    pub fn with_model(self, seed: u64, context: u32) -> Self {
        models::write_model_with_context(seed, context, &self.path("model"));
        self
    }

    /// Path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("a file can be written");
    }

    /// A command in this folder without a terminal.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_host")), arguments)
    }

    /// As `command`, with another file of the program.
    pub fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments);
        self.settle(&mut command);
        command
    }

    /// As `command`, with a limit on file sizes that simulates a full disk.
    pub fn command_with_file_limit(&self, kibibytes: u32, arguments: &[&str]) -> Command {
        // A shell's limit counts blocks of 512 bytes. Unless the signal is ignored, it ends the process.
        let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", 2 * kibibytes);
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_host")]).args(arguments);
        self.settle(&mut command);
        // Compiled plugins exceed every limit used here; without a home they are not cached.
        command.env_remove("XDG_CACHE_HOME").env_remove("HOME");
        command
    }

    /// As `command`, for a process whose disk [`fill`] fills and frees.
    pub fn command_on_small_disk(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_host")]).args(arguments);
        self.settle(&mut command);
        command
    }

    fn settle(&self, command: &mut Command) {
        // All desks share compiled plugins, separate from the user's.
        let caches = concat!(env!("CARGO_TARGET_TMPDIR"), "/caches");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("COLUMNS", "100").env("XDG_CACHE_HOME", caches);
        // Registry state is separate for each desk.
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_CONFIG_HOME", self.path("config"));
    }

    /// Runs `host` with these arguments.
    pub fn host(&self, arguments: &[&str]) -> Outcome {
        finish(&mut self.command(arguments))
    }

    /// `host run` of this desk's run file into `out`, with more arguments appended.
    pub fn run(&self, plugins: &str, more: &[&str]) -> Outcome {
        self.host(&run_arguments(plugins, more))
    }

    /// Episodes of the run in `out`, sorted by id.
    pub fn episodes(&self) -> Vec<EpisodeRecord> {
        episodes(&self.path("out"))
    }
}

/// Arguments of `Desk::run`.
pub fn run_arguments<'a>(plugins: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "run.toml", "--plugins", plugins, "--out", "out"], more].concat()
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Outcome {
    outcome(command.output().expect("the command can be started"))
}

/// Outcome of a command from its output.
fn outcome(output: Output) -> Outcome {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the host writes UTF-8");
    Outcome { code: output.status.code(), results: text(output.stdout), talk: text(output.stderr) }
}

/// Episodes of a run, sorted by id.
pub fn episodes(run: &Path) -> Vec<EpisodeRecord> {
    let reader = RunReader::open(run).and_then(|run| run.episodes()).expect("a run");
    let mut records: Vec<EpisodeRecord> = reader.read_all().collect::<Result<_, _>>().expect("sound parts");
    records.sort_by_key(|record| record.id);
    records
}

/// Files below a folder by relative path, with sizes, sorted. The folder may belong to a run in progress: files that
/// vanish in the meantime are skipped.
pub fn files_below(folder: &Path) -> Vec<(String, u64)> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, u64)>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, metadata) = (entry.path(), entry.metadata());
            if metadata.as_ref().is_ok_and(fs::Metadata::is_dir) {
                walk(root, &path, found);
            } else if let (Ok(below), Ok(metadata)) = (path.strip_prefix(root), metadata) {
                found.push((below.to_string_lossy().into_owned(), metadata.len()));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

/// A text with the digest of itself behind its last mark, as a person would write it after an edit.
pub fn resealed(text: &str) -> String {
    const MARK: &str = "sha256 of this file with zeros here: ";
    let start = text.rfind(MARK).expect("a mark") + MARK.len();
    let (zeros, end) = ("0".repeat(64), start + 64);
    let digest = Digest::of([&text[..start], zeros.as_str(), &text[end..]].concat().as_bytes());
    format!("{}{digest}{}", &text[..start], &text[end..])
}

/// JSON of a file.
pub fn json(path: &Path) -> serde_json::Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
