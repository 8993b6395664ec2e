//! The demo: trains a model on word problems with a calculator, from random weights or from a pretrained model.

use std::path::Path;
use std::process::Command;

use crate::setup;
use crate::step::{both, execute_for_result, step};
use crate::workspace::Workspace;

/// Plugins of word problems.
pub const PLUGINS: [&str; 3] = ["word-problems", "calculator", "answer-match"];

/// What the demo starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Random weights.
    Random,
    /// SmolLM2-135M-Instruct, from the GGUF file of a published package.
    Pretrained,
}

impl Start {
    /// As the command line says.
    pub fn of(pretrained: bool) -> Self {
        if pretrained { Self::Pretrained } else { Self::Random }
    }

    /// Disk space of the downloads, the build and the run, in bytes.
    fn disk(self) -> u64 {
        match self {
            Self::Random => 2_500_000_000,
            Self::Pretrained => 6_000_000_000,
        }
    }

    /// Minutes of training on two cores.
    fn minutes(self) -> u64 {
        match self {
            Self::Random => 2,
            Self::Pretrained => 5,
        }
    }

    /// Features of the programs.
    fn features(self) -> &'static str {
        match self {
            Self::Random => "train",
            Self::Pretrained => "train,gguf",
        }
    }
}

/// Builds what the demo needs, which is a part of the set-up, and runs `host demo`.
pub fn run(workspace: &Workspace, start: Start, out: Option<&Path>, seed: Option<u64>) -> anyhow::Result<()> {
    eprintln!("    On two cores, an empty clone is built in about 6 minutes, and training takes {}.", start.minutes());
    eprintln!("    Downloads, build and run take {:.1} GB of disk.", start.disk() as f64 / 1e9);
    if !setup::is_built(workspace) {
        setup::disk::check(&workspace.root, start.disk())?;
    }
    eprintln!("==> 1 of 3: libtorch and {} plugins", PLUGINS.len());
    setup::add_wasm_target()?;
    let libtorch = || step("libtorch", || setup::libtorch::ensure(&workspace.root));
    both(|| setup::plugins::build_some(workspace, &PLUGINS), libtorch)?;
    eprintln!("==> 2 of 3: the program");
    setup::build_for_demo(workspace, start.features())?;
    eprintln!("==> 3 of 3: training");
    let plugins = PLUGINS.map(|package| workspace.component(package).to_string_lossy().into_owned()).join(",");
    let mut command = Command::new(workspace.target.join("release").join("host"));
    command.args(["demo", "--plugins", &plugins]).current_dir(&workspace.root);
    if start == Start::Pretrained {
        command.arg("--pretrained");
    }
    if let Some(out) = out {
        command.arg("--out").arg(out);
    }
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    // Cargo sets it for tests, many of which train at once.
    command.env_remove("OMP_WAIT_POLICY");
    execute_for_result(&mut command)
}
