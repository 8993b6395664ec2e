//! `dist`: the files of a release for Linux on x86-64, in `target/dist`: archive and installer, Python and npm packages,
//! list of components, provenance and checksums. Nothing is uploaded.

mod archive;
mod check;
mod installer;
mod library;
mod programs;
mod provenance;
mod sbom;
mod train_wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{build_sdk, pack_js, wheel};
use crate::step::{execute, note, output_of, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;
use crate::{docs, foreign, setup};

/// Locked tools: run paths, and independent checks.
const TOOLS: &str = include_str!("../../../requirements/dist.txt");

/// Version of all packages.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// System of the programs, as names of files have it.
pub const SYSTEM: &str = "x86_64-linux";

/// File of checksums, in the form of `sha256sum`.
const CHECKSUMS: &str = "SHA256SUMS";

/// What to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Folder with programs built before; `None` builds them.
    pub programs: Option<PathBuf>,
    /// Wheel of `gymkhana-rl` built before; `None` builds it.
    pub wheel: Option<PathBuf>,
    /// Adds the site and checks all files.
    pub check: bool,
}

/// A release that is being made.
pub struct Release<'a> {
    pub workspace: &'a Workspace,
    /// Folder of the files that are published.
    pub out: PathBuf,
    /// Folder of everything else.
    pub work: PathBuf,
    /// Python with the locked tools.
    pub python: PathBuf,
    /// Time of the last commit in seconds since 1970, for entries of archives.
    pub time: String,
}

impl Release<'_> {
    /// Name of the archive without its extension, and of its one folder.
    pub fn name() -> String {
        format!("gymkhana-{VERSION}-{SYSTEM}")
    }

    /// A new empty folder below [`Self::work`].
    pub fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.work.join(name);
        empty(&folder)?;
        Ok(folder)
    }
}

/// Makes all files and prints their sizes.
pub fn run(workspace: &Workspace, request: &Request) -> anyhow::Result<()> {
    let started = now()?;
    let release = Release {
        workspace,
        out: workspace.target.join("dist"),
        work: workspace.target.join("dist-parts"),
        python: step("dist: tools", || ensure_python(&workspace.root, "dist", TOOLS))?,
        time: last_commit(workspace, "%ct")?,
    };
    empty(&release.out)?;
    let libtorch = step("dist: libtorch", || library::prepare(&release))?;
    let programs = programs::prepare(&release, request.programs.as_deref())?;
    let registry = step("dist: registry", || make_registry(workspace, "archive", |_| true))?;
    let parts = archive::Parts { programs: &programs, libtorch: &libtorch, registry: &registry };
    let archive = step("dist: archive", || archive::pack(&release, &parts))?;
    step("dist: installer", || installer::write(&release, &archive, &programs.glibc))?;
    // The interpreter of Python would make the installed package larger than its limit.
    let registry = step("dist: registry of the wheel", || make_registry(workspace, "wheel", |name| name != "python"))?;
    step("dist: wheel of the trainer", || {
        train_wheel::pack(&release, &archive::Parts { registry: &registry, ..parts })
    })?;
    add_wheel(&release, request.wheel.as_deref())?;
    step("dist: SDK for Python", || build_sdk(workspace, &[], &release.out))?;
    step("dist: SDK for JavaScript", || pack_js(workspace, &release.out))?;
    let components = step("dist: components", || sbom::write(&release))?;
    if request.check {
        docs::run(workspace)?;
        step("dist: site", || pack_site(&release))?;
    }
    step("dist: provenance", || provenance::write(&release, &started))?;
    step("dist: checksums", || write_checksums(&release.out))?;
    if request.check {
        check::run(&release, &components)?;
    }
    report(&release)
}

/// Makes a registry in a folder that is kept, since the conformance suite of all plugins takes minutes.
fn make_registry(
    workspace: &Workspace,
    of: &str,
    is_wanted: fn(&str) -> bool,
) -> anyhow::Result<setup::registry::InstalledRegistry> {
    setup::registry::make(workspace, workspace.target.join("dist-registry").join(of), is_wanted)
}

/// Builds the plugins of a release, and the programs as tests run them.
fn build(workspace: &Workspace) -> anyhow::Result<()> {
    setup::build(workspace)?;
    foreign::build(workspace)
}

/// Adds the wheel of `gymkhana-rl`, whose build takes half an hour on two cores.
fn add_wheel(release: &Release<'_>, built: Option<&Path>) -> anyhow::Result<()> {
    let wheel = match built {
        Some(file) => file.to_owned(),
        None => wheel::build(release.workspace, false, None)?,
    };
    let name = wheel.file_name().context("the wheel has no name")?;
    let wanted = format!("gymkhana_rl-{VERSION}-");
    if !name.to_string_lossy().starts_with(&wanted) {
        bail!("`{}` is not a wheel of gymkhana-rl {VERSION}\nhint: build it by `cargo xtask wheel`", wheel.display());
    }
    copy(&wheel, &release.out.join(name))
}

fn pack_site(release: &Release<'_>) -> anyhow::Result<()> {
    let site = release.workspace.target.join("docs/site");
    archive::tar(release, &site, &release.out.join(format!("gymkhana-{VERSION}-site.tar.gz")))
}

/// Writes the checksums of all files in the folder.
fn write_checksums(out: &Path) -> anyhow::Result<()> {
    let names = names(out)?;
    let sums = output_of(Command::new("sha256sum").args(&names).current_dir(out)).context("`sha256sum` failed")?;
    fs::write(out.join(CHECKSUMS), sums + "\n").with_context(|| format!("cannot write `{CHECKSUMS}`"))
}

/// SHA-256 of a file in hexadecimal digits.
pub fn sha256(file: &Path) -> anyhow::Result<String> {
    let line = output_of(Command::new("sha256sum").arg("--").arg(file));
    let line = line.with_context(|| format!("`sha256sum` cannot read `{}`", file.display()))?;
    // Before the digest of a file with unusual letters there is a backslash.
    let digest = line.trim_start_matches('\\').split_whitespace().next();
    digest.map(str::to_owned).context("`sha256sum` printed nothing")
}

/// Names of the files in a folder, sorted.
pub fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    let mut names: Vec<String> =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<anyhow::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// A property of the last commit, in git's format.
pub fn last_commit(workspace: &Workspace, format: &str) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", &format!("--format={format}")]).current_dir(&workspace.root);
    output_of(&mut git).context("`git log` failed")
}

/// The present time in the form of RFC 3339.
pub fn now() -> anyhow::Result<String> {
    output_of(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])).context("`date` failed")
}

/// Copies a file and names it in the error.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to).map(drop).with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))
}

/// Copies a folder.
pub fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    execute(Command::new("cp").args(["-r", "--"]).arg(from).arg(to))
}

fn empty(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))
}

/// Largest file that the Python index takes of a project without a limit of its own, in bytes.
const INDEX_LIMIT: u64 = 100 << 20;

fn report(release: &Release<'_>) -> anyhow::Result<()> {
    for name in names(&release.out)? {
        let bytes = fs::metadata(release.out.join(&name))?.len();
        note(&format!("{:>9.3} MB  {name}", bytes as f64 / 1e6));
        if name.ends_with(".whl") && bytes > INDEX_LIMIT {
            note("           above PyPI's limit of 100 MiB per file: a higher one must be granted before the upload");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_sha256sum_and_cover_all_files() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("b"), "abc").expect("written");
        fs::write(folder.path().join("a"), "").expect("written");
        // FIPS 180-2, examples; the digest of no bytes.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(&folder.path().join("b")).expect("read"), abc);
        assert!(sha256(&folder.path().join("c")).is_err());
        write_checksums(folder.path()).expect("written");
        let sums = fs::read_to_string(folder.path().join(CHECKSUMS)).expect("written");
        assert_eq!(sums, format!("{nothing}  a\n{abc}  b\n"));
    }
}
