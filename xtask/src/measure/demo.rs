//! The demo: trains a small model on word problems with a calculator.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup;
use crate::step::{both, execute_for_result, step};
use crate::workspace::Workspace;

/// Plugins of word problems.
pub const PLUGINS: [&str; 3] = ["word-problems", "calculator", "answer-match"];
const RUN_FILE: &str = "examples/runs/word-problems.toml";

/// Disk space of the downloads and the build, in bytes.
const DISK: u64 = 2_500_000_000;

/// Builds what the demo needs, which is a part of the set-up, and trains in `out` or in a new folder.
pub fn run(workspace: &Workspace, out: Option<&Path>, seed: Option<u64>) -> anyhow::Result<()> {
    let out = out.map_or_else(|| fresh_folder(&workspace.root.join("out")), Path::to_owned);
    eprintln!(
        "    On two cores, the demo takes about 12 minutes in an empty clone and 4 minutes after that; its downloads and"
    );
    eprintln!("    its build take {:.1} GB of disk.", DISK as f64 / 1e9);
    if !setup::is_built(workspace) {
        setup::disk::check(&workspace.root, DISK)?;
    }
    eprintln!("==> 1 of 3: libtorch and {} plugins", PLUGINS.len());
    setup::add_wasm_target()?;
    let libtorch = || step("libtorch", || setup::libtorch::ensure(&workspace.root));
    both(|| setup::plugins::build_some(workspace, &PLUGINS), libtorch)?;
    eprintln!("==> 2 of 3: the program");
    setup::build_for_demo(workspace)?;
    eprintln!("==> 3 of 3: training, in {}", out.display());
    let plugins = PLUGINS.map(|package| workspace.component(package).to_string_lossy().into_owned()).join(",");
    let mut command = Command::new(workspace.target.join("release").join("host"));
    command.args(["run", "--plugins", &plugins]).arg(workspace.root.join(RUN_FILE)).arg("--out").arg(out);
    // Cargo sets it for tests, many of which train at once.
    command.env_remove("OMP_WAIT_POLICY");
    if let Some(seed) = seed {
        command.args(["--set", &format!("seed={seed}")]);
    }
    execute_for_result(&mut command)
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
