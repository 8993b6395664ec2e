//! `wheel`: the wheel of the Python package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::step::{execute, output_of, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;

/// Locked requirements of the build.
const MATURIN: &str = include_str!("../../requirements/wheel.txt");

/// Oldest system that a portable wheel runs on, by its C library.
const PLATFORM: &str = "manylinux_2_28";

/// Largest size of the wheel in bytes.
const MAX_BYTES: u64 = 20 << 20;

/// Shared libraries that a wheel for Linux may need: those of glibc and of the compiler.
const LIBRARIES: [&str; 8] = [
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// Builds the wheel for this machine or the `target`, checks its size and its libraries, and returns its path.
///
/// It runs on systems as old as this machine or, if it is `portable`, as old as [`PLATFORM`].
pub fn build(workspace: &Workspace, portable: bool, target: Option<&str>) -> anyhow::Result<PathBuf> {
    let python = ensure_python(&workspace.root, "wheel", MATURIN)?;
    let out = workspace.target.join("wheels");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove `{}`", out.display()))?;
    }
    step("wheel", || {
        let mut command = Command::new(&python);
        command.args(["-m", "maturin", "build", "--profile", "wheel", "--locked"]);
        if portable {
            // Zig links against the symbols of the old C library, whatever this machine has.
            command.args(["--zig", "--compatibility", PLATFORM]);
        }
        if let Some(target) = target {
            execute(Command::new("rustup").args(["target", "add", target]).current_dir(&workspace.root))?;
            command.args(["--target", target]);
        }
        command.args(["--manifest-path", "host/python/Cargo.toml", "--out"]).arg(&out);
        execute(command.current_dir(&workspace.root))
    })?;
    let wheel = only_wheel(&out)?;
    let bytes = fs::metadata(&wheel)?.len();
    eprintln!("    {}: {:.1} MB", wheel.display(), bytes as f64 / 1e6);
    if bytes > MAX_BYTES {
        bail!("the wheel has {bytes} bytes; the limit is {MAX_BYTES}");
    }
    if wheel.to_string_lossy().contains("linux") {
        step("wheel: libraries", || check_libraries(workspace, &python, &wheel))?;
    }
    Ok(wheel)
}

/// The wheel of a folder.
pub fn only_wheel(folder: &Path) -> anyhow::Result<PathBuf> {
    let files = fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    let mut wheels = files.filter_map(|file| Some(file.ok()?.path())).filter(|path| has_extension(path, "whl"));
    wheels.next().with_context(|| format!("`{}` has no wheel", folder.display()))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Fails if the native module needs a library that not every system has, such as libtorch.
fn check_libraries(workspace: &Workspace, python: &Path, wheel: &Path) -> anyhow::Result<()> {
    let unpacked = workspace.target.join("wheel-unpacked");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked).with_context(|| format!("cannot remove `{}`", unpacked.display()))?;
    }
    execute(Command::new(python).args(["-m", "zipfile", "-e"]).args([wheel, &unpacked]))?;
    let module = unpacked.join("gymkhana_rl/_native.abi3.so");
    let shown = output_of(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&module))
        .with_context(|| format!("`readelf` cannot read `{}`", module.display()))?;
    let needed = needed(&shown);
    if needed.is_empty() {
        bail!("`readelf` names no library of `{}`", module.display());
    }
    let foreign: Vec<&str> = needed.into_iter().filter(|library| !LIBRARIES.contains(library)).collect();
    if !foreign.is_empty() {
        bail!("the wheel needs libraries that systems lack: {}", foreign.join(", "));
    }
    Ok(())
}

/// Libraries that the output of `readelf --dynamic` names.
fn needed(shown: &str) -> Vec<&str> {
    let lines = shown.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_read() {
        let shown = "Dynamic section at offset 0x2d58 contains 28 entries:\n  Tag        Type         Name/Value\n \
                     0x0000000000000001 (NEEDED)             Shared library: [libtorch_cpu.so]\n \
                     0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n \
                     0x000000000000000e (SONAME)             Library soname: [lib_native.so]\n";
        assert_eq!(needed(shown), ["libtorch_cpu.so", "libc.so.6"]);
        assert!(!LIBRARIES.contains(&"libtorch_cpu.so") && LIBRARIES.contains(&"libc.so.6"));
    }
}
