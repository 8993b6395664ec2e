//! Checks of a release by programs of others: checksums, the schema of the list of components, the installer's shell, and
//! installations of the archive and the packages, without network.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{CHECKSUMS, Release, VERSION, provenance};
use crate::setup::{PROGRAMS, SECOND_NAME};
use crate::step::{execute, step};

/// Validates the document of its argument by the schema of CycloneDX.
const VALIDATE: &str = "\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
with open(sys.argv[1], encoding='utf-8') as file:
    sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read()))
";

/// A command that loads libtorch before it fails, and what it then says.
const LOADS_LIBTORCH: ([&str; 3], &str) =
    (["generate", "no-model", "hello"], "`no-model` is neither a folder nor a model on a hub");

/// Checks all files; `components` is the list of components.
pub fn run(release: &Release<'_>, components: &Path) -> anyhow::Result<()> {
    step("check: checksums", || {
        execute(
            Command::new("sha256sum").args(["--check", "--strict", "--quiet", CHECKSUMS]).current_dir(&release.out),
        )?;
        check_provenance(release)
    })?;
    step("check: components", || execute(Command::new(&release.python).args(["-c", VALIDATE]).arg(components)))?;
    step("check: installer's shell", || {
        let shellcheck = release.python.with_file_name("shellcheck");
        execute(Command::new(shellcheck).arg("--shell=sh").arg(release.out.join("install.sh")))
    })?;
    step("check: archive", || check_archive(release))?;
    step("check: packages", || check_packages(release))
}

/// Each file with a checksum, except the statement itself, is a subject with the same digest, and the other way round.
fn check_provenance(release: &Release<'_>) -> anyhow::Result<()> {
    let read = |name: &str| fs::read_to_string(release.out.join(name)).with_context(|| format!("cannot read `{name}`"));
    let statement: Value = serde_json::from_str(&read(provenance::FILE)?)?;
    let subjects = statement["subject"].as_array().context("the statement has no subjects")?;
    let mut stated: Vec<String> = subjects
        .iter()
        .map(|subject| Some(format!("{}  {}", subject["digest"]["sha256"].as_str()?, subject["name"].as_str()?)))
        .collect::<Option<_>>()
        .context("a subject lacks its name or digest")?;
    let sums = read(CHECKSUMS)?;
    let own = format!("  {}", provenance::FILE);
    let mut summed: Vec<&str> = sums.lines().filter(|line| !line.ends_with(&own)).collect();
    stated.sort();
    summed.sort_unstable();
    ensure!(stated == summed, "the provenance names other files than `{CHECKSUMS}`");
    Ok(())
}

/// Installs the archive into a folder, starts the program under both names, and removes it.
fn check_archive(release: &Release<'_>) -> anyhow::Result<()> {
    let home = release.folder("check-archive")?;
    let archive = release.out.join(format!("{}.tar.gz", Release::name()));
    let mut install = Command::new("sh");
    install.arg(release.out.join("install.sh")).arg("--archive").arg(&archive).env("HOME", &home);
    execute(&mut install)?;
    let bin = home.join(".local/bin");
    check_programs(&bin)?;
    execute(Command::new("sh").arg(release.out.join("install.sh")).arg("--uninstall").env("HOME", &home))?;
    ensure!(fs::read_dir(&bin)?.next().is_none(), "the installer leaves links behind");
    Ok(())
}

/// Installs the Python packages from the folder alone, and starts the program under both names.
fn check_packages(release: &Release<'_>) -> anyhow::Result<()> {
    let home = release.folder("check-packages")?;
    execute(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    let mut pip = Command::new(home.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links"]);
    execute(pip.arg(&release.out).args(["gymkhana-rl-train", "gymkhana-sdk"]))?;
    check_programs(&home.join("bin"))?;
    execute(Command::new(home.join("bin/python")).args(["-c", "import gymkhana_rl, gymkhana_sdk"]))
}

/// Both names print the version, and a command loads libtorch.
fn check_programs(bin: &Path) -> anyhow::Result<()> {
    for name in [PROGRAMS[0], SECOND_NAME] {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(bin.join(name));
            command.args(arguments).env_remove("LIBTORCH").env_remove("LD_LIBRARY_PATH");
            command.output().with_context(|| format!("`{name}` does not start"))
        };
        let version = run(&["--version"])?;
        let wanted = format!("host {VERSION}\n");
        ensure!(version.stdout == wanted.as_bytes(), "`{name} --version` printed {version:?}");
        let (arguments, message) = LOADS_LIBTORCH;
        let failed = run(&arguments)?;
        let text = String::from_utf8_lossy(&failed.stderr);
        ensure!(text.contains(message), "`{name}` does not load libtorch: {text}");
    }
    Ok(())
}
