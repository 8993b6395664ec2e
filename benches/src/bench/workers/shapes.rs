//! The shapes of runs that are measured: what an episode costs, and where.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::root;

use super::process::Process;

/// Rounds of arithmetic of a step in the shape `computing`, and in a smoke run.
const ROUNDS: (u64, u64) = (8_000_000, 1000);

/// A run of a certain shape.
pub struct Shape {
    pub name: &'static str,
    /// Plugins, by the names of their packages.
    plugins: &'static [&'static str],
    /// Most groups that a worker plays at once: one that stands for a machine with few places.
    pub groups_at_once: u32,
    /// Whether its environment waits for other machines.
    pub waits: bool,
    /// The run file, without the stage.
    text: String,
    groups: u32,
    group_size: u32,
    /// Training steps before the measured ones, and the measured ones.
    warm: u32,
    measured: u32,
}

impl Shape {
    /// Nearly all of the time goes into tokens.
    pub fn tokens(effort: Effort) -> Self {
        Self {
            name: "tokens",
            plugins: &["word-problems", "calculator", "answer-match"],
            groups_at_once: 32,
            waits: false,
            text: run_file(
                "answer-match.correct",
                "turns = 3, reply_tokens = 32",
                "layers = 2, width = 64, heads = 4, kv_heads = 4, mlp = 192, context = 512",
            ),
            groups: effort.pick(32, 2),
            group_size: effort.pick(8, 2),
            warm: effort.pick(2, 1),
            measured: effort.pick(8, 1),
        }
    }

    /// Each step of the environment computes for some ten milliseconds.
    pub fn computing(effort: Effort) -> Self {
        let rounds = effort.pick(ROUNDS.0, ROUNDS.1);
        let environment = format!("[environment]\noptions = {{ rounds = {rounds} }}\n");
        Self {
            name: "computing",
            plugins: &["guest-busy"],
            groups_at_once: 32,
            waits: false,
            text: run_file("environment.success", "turns = 4, reply_tokens = 2", SMALL) + &environment,
            groups: effort.pick(8, 2),
            group_size: effort.pick(8, 2),
            warm: effort.pick(2, 1),
            measured: effort.pick(8, 1),
        }
    }

    /// Each step of the environment waits for a model on another machine, and a worker has two places.
    pub fn waiting(effort: Effort, model: SocketAddr) -> Self {
        let environment = format!(
            "[environment]\noptions = {{ user = \"model\" }}\n[plugins.booking]\nmodel = \"guest\"\n[models.guest]\n\
             url = \"http://{model}/v1\"\nname = \"guest\"\n"
        );
        Self {
            name: "waiting",
            plugins: &["booking"],
            groups_at_once: 2,
            waits: true,
            text: run_file("environment.success", "turns = 4, reply_tokens = 2", SMALL) + &environment,
            groups: effort.pick(16, 2),
            group_size: effort.pick(4, 2),
            warm: effort.pick(2, 1),
            measured: effort.pick(8, 1),
        }
    }

    /// The run file.
    fn run_file(&self) -> String {
        let Self { groups, group_size, warm, measured, .. } = self;
        let steps = warm + measured;
        format!(
            "{}[[stages]]\nkind = \"rl\"\nsteps = {steps}\ngroups = {groups}\ngroup_size = {group_size}\n\
             optimizer = {{ learning_rate = 1e-4 }}\n",
            self.text
        )
    }

    /// Starts the run in `folder`, with more arguments of `host run`.
    pub fn start(&self, folder: &Path, shared: &Path, more: &[&str]) -> Result<Process> {
        fs::write(folder.join("run.toml"), self.run_file())?;
        let plugin = |name: &&str| root().join(format!("target/plugins/{name}.wasm")).to_string_lossy().into_owned();
        let plugins = self.plugins.iter().map(plugin).collect::<Vec<_>>().join(",");
        let run = ["run", "run.toml", "--plugins", &plugins, "--out", "out"];
        Process::start("trainer", &[&run[..], more].concat(), folder, shared)
    }

    /// Lines of metrics before the measured steps, and after them.
    pub fn window(&self) -> (usize, usize) {
        (self.warm as usize, (self.warm + self.measured) as usize)
    }

    /// Episodes of the measured steps.
    pub fn episodes(&self) -> f64 {
        f64::from(self.measured * self.groups * self.group_size)
    }

    /// Measured training steps.
    pub fn steps(&self) -> u32 {
        self.measured
    }

    /// Groups of a step, and episodes of a group.
    pub fn step(&self) -> (u32, u32) {
        (self.groups, self.group_size)
    }
}

/// Size of a model whose tokens cost little.
const SMALL: &str = "layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 1024";

fn run_file(success: &str, limits: &str, model: &str) -> String {
    format!(
        "seed = 1\nsuccess = \"{success}\"\nlimits = {{ {limits} }}\nevaluation = {{ tasks = 0 }}\n\
         policy = {{ max_concurrent_sequences = 64, tiny = {{ {model} }} }}\n"
    )
}
