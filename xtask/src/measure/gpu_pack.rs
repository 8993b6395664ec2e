//! `gpu-pack`: a folder that checks and measures a GPU on a machine which has Python with torch and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::demo::PLUGINS;
use super::{BENCHES, build_program};
use crate::setup;
use crate::step::{execute, step};
use crate::workspace::Workspace;

/// Scripts and the run file.
const SCRIPTS: &str = "benches/gpu";

/// Programs of the pack, besides that of the benches.
const PROGRAMS: [&str; 2] = ["host", "gymkhana-train"];

/// Archive of the programs and plugins.
const ARCHIVE: &str = "programs.tar.xz";

/// Packs the members into the archive. The dictionary holds all programs, which share most of their code; the second
/// fastest search then takes 35 s, and its result is 9 % smaller than that of the fastest, which takes 26 s.
const PACK: &str = "import lzma, sys, tarfile
filters = [{'id': lzma.FILTER_X86}, {'id': lzma.FILTER_LZMA2, 'preset': 1, 'dict_size': 192 << 20}]
with lzma.open(sys.argv[1], 'wb', filters=filters) as file, tarfile.open(fileobj=file, mode='w') as archive:
    for member in sys.argv[2:]:
        archive.add(member)
";

/// Largest size of the pack in bytes: a machine without a network is given 64 MiB, the repository included.
const MAX_BYTES: u64 = 44 << 20;

/// Stand-in for `nvidia-smi` in a rehearsal: half of the time busy, 1,000 MB.
const STAND_IN: &str = "#!/bin/sh\nwhile :; do echo '50, 1000'; sleep 0.1; done\n";

/// Texts that a complete rehearsal leaves in its results, by file.
const LEFT_BY_REHEARSAL: [(&str, &str); 5] = [
    ("results.jsonl", "\"check\":\"library loading\""),
    ("results.jsonl", "\"figure\": \"use\", \"step\": \"run\""),
    ("results.jsonl", "\"goal\": \"generation: ratio to torch\""),
    ("summary.md", "| run | 1000 | 50% |"),
    ("replay-resumed.out", ""),
];

/// Builds the pack in `target/gpu-pack`.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    setup::run(workspace)?;
    pack(workspace, &workspace.target.join("gpu-pack"))
}

/// Fills a folder with the pack, its programs compressed.
fn pack(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    assemble(workspace, folder)?;
    step("gpu-pack: archive", || {
        let members = ["bin", "plugins"];
        let mut command = Command::new("python3");
        command.args(["-c", PACK, ARCHIVE]).args(members).current_dir(folder);
        execute(&mut command)?;
        members.iter().try_for_each(|member| Ok(fs::remove_dir_all(folder.join(member))?))
    })?;
    let bytes = size(folder)?;
    eprintln!("    {}: {:.1} MB", folder.display(), bytes as f64 / 1e6);
    if bytes > MAX_BYTES {
        bail!("the pack has {bytes} bytes; the limit is {MAX_BYTES}");
    }
    Ok(())
}

/// Makes the pack and runs its script on the CPU with small models. Comparisons with torch are skipped where Python lacks
/// it.
pub fn rehearse(workspace: &Workspace) -> anyhow::Result<()> {
    let folder = workspace.target.join("gpu-rehearsal");
    pack(workspace, &folder)?;
    step("gpu-pack: rehearsal on the CPU", || {
        let (stand_in, results) = (folder.join("smi"), folder.join("results"));
        fs::write(&stand_in, STAND_IN)?;
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755))?;
        let mut command = Command::new("bash");
        command.arg(folder.join("check.sh")).env("DEVICE", "cpu").env("SIZE", "small").env("SMI", stand_in);
        execute(command.env("OUT", &results))?;
        LEFT_BY_REHEARSAL.iter().try_for_each(|(file, text)| {
            let path = results.join(file);
            let found = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
            if !found.contains(text) {
                bail!("`{}` lacks `{text}`", path.display());
            }
            Ok(())
        })
    })?;
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove `{}`", folder.display()))
}

/// Copies scripts, stripped programs and plugins.
fn assemble(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    for part in ["bin", "plugins"] {
        fs::create_dir_all(folder.join(part)).with_context(|| format!("cannot create `{}`", folder.display()))?;
    }
    let copy = |from: PathBuf, to: PathBuf| {
        fs::copy(&from, &to).with_context(|| format!("cannot copy `{}`", from.display())).map(|_| to)
    };
    for entry in fs::read_dir(workspace.root.join(SCRIPTS))? {
        let path = entry?.path();
        let name = path.file_name().context("a script has no name")?.to_owned();
        copy(path, folder.join(name))?;
    }
    for plugin in PLUGINS {
        copy(workspace.component(plugin), folder.join("plugins").join(format!("{plugin}.wasm")))?;
    }
    let benches = build_program(workspace, BENCHES)?;
    let programs = PROGRAMS.map(|name| workspace.target.join("release").join(name));
    for program in programs.into_iter().chain([benches]) {
        let name = program.file_name().context("a program has no name")?.to_owned();
        let stripped = copy(program, folder.join("bin").join(name))?;
        execute(Command::new("strip").arg(&stripped))?;
    }
    Ok(())
}

/// Bytes of the files in a folder.
fn size(folder: &Path) -> anyhow::Result<u64> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    entries.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
