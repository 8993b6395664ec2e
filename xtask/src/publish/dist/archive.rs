//! The archive: programs, libtorch, first-party plugins and the demo's run file, in one folder that can be moved.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::programs::Programs;
use super::{Release, VERSION, copy, copy_folder};
use crate::setup::registry::is_first_party;
use crate::setup::{PROGRAMS, SECOND_NAME};
use crate::step::execute;
use crate::workspace::Workspace;

/// The demo's run file.
pub const RUN_FILE: &str = "examples/runs/word-problems.toml";

/// File with the version, by which the installer recognises an installation.
const VERSION_FILE: &str = "gymkhana-version";

/// The first-party plugin in Python, which is no package of cargo.
const PYTHON_PLUGIN: &str = "python";

/// What an installation of the trainer holds.
pub struct Parts<'a> {
    pub programs: &'a Programs,
    /// Folder of libtorch.
    pub libtorch: &'a Path,
}

impl Parts<'_> {
    /// Puts `bin` and `libtorch` into a folder. The second name is a link in an archive; wheels cannot hold links.
    pub fn place(&self, folder: &Path) -> anyhow::Result<()> {
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).with_context(|| format!("cannot create `{}`", bin.display()))?;
        for name in PROGRAMS {
            copy(&self.programs.folder.join(name), &bin.join(name))?;
        }
        copy_folder(self.libtorch, &folder.join("libtorch"))
    }
}

/// Packs the archive and returns its path.
pub fn pack(release: &Release<'_>, parts: &Parts<'_>) -> anyhow::Result<PathBuf> {
    let name = Release::name();
    let folder = release.folder("archive")?.join(&name);
    parts.place(&folder)?;
    symlink(PROGRAMS[0], folder.join("bin").join(SECOND_NAME))?;
    add_plugins(release.workspace, &folder.join("plugins"))?;
    for file in ["LICENSE", RUN_FILE] {
        let to = folder.join(Path::new(file).file_name().context("a file has no name")?);
        copy(&release.workspace.root.join(file), &to)?;
    }
    fs::write(folder.join(VERSION_FILE), format!("{VERSION}\n"))?;
    let archive = release.out.join(format!("{name}.tar.gz"));
    tar(release, &folder, &archive)?;
    Ok(archive)
}

fn add_plugins(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let packages = workspace.packages.iter().filter(|package| is_first_party(&package.folder));
    let names: Vec<&str> = packages.map(|package| package.name.as_str()).chain([PYTHON_PLUGIN]).collect();
    ensure!(names.len() > 1, "the repository has no plugins");
    names.iter().try_for_each(|name| copy(&workspace.component(name), &folder.join(format!("{name}.wasm"))))
}

/// Packs a folder under its own name. Two archives of the same files are equal.
pub fn tar(release: &Release<'_>, folder: &Path, archive: &Path) -> anyhow::Result<()> {
    let (parent, name) = (folder.parent().context("no parent")?, folder.file_name().context("no name")?);
    let mut command = Command::new("tar");
    command.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    command.arg("--mode=go=rX,u+rwX,a-s").arg(format!("--mtime=@{}", release.time));
    // Every system unpacks gzip; minimal ones lack xz and zstd.
    command.args(["--use-compress-program", "gzip --no-name"]).arg("--file").arg(archive);
    execute(command.arg("--directory").arg(parent).arg(name))
}
