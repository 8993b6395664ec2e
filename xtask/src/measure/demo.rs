//! The demo: trains a model on word problems with a calculator, from random weights or from a pretrained model.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::reference;
use crate::setup;
use crate::step::{both, execute, execute_for_result, step};
use crate::workspace::Workspace;

/// Plugins of word problems.
pub const PLUGINS: [&str; 3] = ["word-problems", "calculator", "answer-match"];
/// Folder of the pretrained model below that of outputs.
const MODEL: &str = "models/smollm2-135m-instruct";

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

    fn run_file(self) -> &'static str {
        match self {
            Self::Random => "examples/runs/word-problems.toml",
            Self::Pretrained => "examples/runs/pretrained.toml",
        }
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

/// Builds what the demo needs, which is a part of the set-up, and trains in `out` or in a new folder.
pub fn run(workspace: &Workspace, start: Start, out: Option<&Path>, seed: Option<u64>) -> anyhow::Result<()> {
    let outputs = workspace.root.join("out");
    let out = out.map_or_else(|| fresh_folder(&outputs), Path::to_owned);
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
    let host = workspace.target.join("release").join("host");
    if start == Start::Pretrained {
        import(workspace, &host, &outputs.join(MODEL))?;
    }
    eprintln!("==> 3 of 3: training, in {}", out.display());
    let plugins = PLUGINS.map(|package| workspace.component(package).to_string_lossy().into_owned()).join(",");
    let mut command = Command::new(host);
    command.args(["run", "--plugins", &plugins]).arg(start.run_file()).arg("--out").arg(out);
    command.current_dir(&workspace.root);
    // Cargo sets it for tests, many of which train at once.
    command.env_remove("OMP_WAIT_POLICY");
    if let Some(seed) = seed {
        command.args(["--set", &format!("seed={seed}")]);
    }
    execute_for_result(&mut command)
}

/// Fetches the pretrained model, unless its folder is there.
fn import(workspace: &Workspace, host: &Path, folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        return Ok(());
    }
    let file = reference::smollm2(workspace)?;
    step("pretrained model", || {
        execute(Command::new(host).args(["model", "import"]).arg(file).arg("--out").arg(folder))
    })
}

/// `demo`, or the first of `demo-2`, `demo-3`, … that does not exist.
fn fresh_folder(parent: &Path) -> PathBuf {
    let names = std::iter::once("demo".to_owned()).chain((2_u64..).map(|number| format!("demo-{number}")));
    let mut free = names.map(|name| parent.join(name)).filter(|path| !path.exists());
    free.next().unwrap_or_else(|| parent.join("demo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_exists_is_left_alone() {
        let parent = std::env::temp_dir().join(format!("xtask-demo-{}", std::process::id()));
        assert_eq!(fresh_folder(&parent), parent.join("demo"));
        std::fs::create_dir_all(parent.join("demo")).expect("made");
        std::fs::create_dir_all(parent.join("demo-2")).expect("made");
        assert_eq!(fresh_folder(&parent), parent.join("demo-3"));
        std::fs::remove_dir_all(&parent).expect("removed");
    }
}
