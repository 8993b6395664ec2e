//! The archive: programs, libtorch, the registry of the first-party plugins and the demo's run file, in one folder that can
//! be moved.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::programs::Programs;
use super::{Release, VERSION, copy, copy_folder};
use crate::setup::registry::{CONFIG, InstalledRegistry, mapping};
use crate::setup::{PROGRAMS, SECOND_NAME};
use crate::step::execute;

/// The demo's run file.
const RUN_FILE: &str = "examples/runs/word-problems.toml";

/// File with the version, by which the installer recognises an installation.
const VERSION_FILE: &str = "gymkhana-version";

/// What an installation of the trainer holds.
pub struct Parts<'a> {
    pub programs: &'a Programs,
    /// Folder of libtorch.
    pub libtorch: &'a Path,
    /// Registry of the first-party plugins.
    pub registry: &'a InstalledRegistry,
}

impl Parts<'_> {
    /// Puts `bin`, `libtorch` and `share/gymkhana` into a folder. The second name is a link in an archive; wheels cannot
    /// hold links.
    pub fn place(&self, folder: &Path) -> anyhow::Result<()> {
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).with_context(|| format!("cannot create `{}`", bin.display()))?;
        for name in PROGRAMS {
            copy(&self.programs.folder.join(name), &bin.join(name))?;
        }
        let share = folder.join("share/gymkhana");
        fs::create_dir_all(&share).with_context(|| format!("cannot create `{}`", share.display()))?;
        copy_folder(&self.registry.files, &share.join("registry"))?;
        fs::write(share.join(CONFIG), mapping("registry", &self.registry.root))?;
        copy_folder(self.libtorch, &folder.join("libtorch"))
    }
}

/// Packs the archive and returns its path.
pub fn pack(release: &Release<'_>, parts: &Parts<'_>) -> anyhow::Result<PathBuf> {
    let name = Release::name();
    let folder = release.folder("archive")?.join(&name);
    parts.place(&folder)?;
    symlink(PROGRAMS[0], folder.join("bin").join(SECOND_NAME))?;
    for file in ["LICENSE", RUN_FILE] {
        let to = folder.join(Path::new(file).file_name().context("a file has no name")?);
        copy(&release.workspace.root.join(file), &to)?;
    }
    fs::write(folder.join(VERSION_FILE), format!("{VERSION}\n"))?;
    let archive = release.out.join(format!("{name}.tar.gz"));
    tar(release, &folder, &archive)?;
    Ok(archive)
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
