//! libtorch's CPU part as it is shipped: the libraries that are loaded at run time, stripped, with their licences.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::{Release, copy, copy_folder};
use crate::setup::libtorch;
use crate::step::execute;

/// Libraries relative to `.libtorch`: libtorch's own, and those of CUDA that `libtorch_cpu.so` is linked with for its
/// profiler. Its run path also names its own folder, where all of them are put.
const LIBRARIES: [&str; 5] = [
    "torch/lib/libc10.so",
    "torch/lib/libgomp.so.1",
    "torch/lib/libtorch_cpu.so",
    "nvidia/cu13/lib/libcudart.so.13",
    "nvidia/cu13/lib/libcupti.so.13",
];

/// Folder with `lib`, `build-version` and `licenses`.
pub fn prepare(release: &Release<'_>) -> anyhow::Result<PathBuf> {
    let home = libtorch::ensure_with_licenses(&release.workspace.root)?;
    let folder = release.folder("libtorch")?;
    fs::create_dir(folder.join("lib"))?;
    for library in LIBRARIES {
        let from = home.join(library);
        let to = folder.join("lib").join(from.file_name().context("a library has no name")?);
        copy(&from, &to)?;
        // The table of symbols is a fifth of libtorch; linking and stack traces of exceptions do not need it.
        execute(Command::new("strip").arg("--strip-unneeded").arg(&to))?;
    }
    copy(&home.join("torch/build-version"), &folder.join("build-version"))?;
    copy_folder(&home.join("licenses"), &folder.join("licenses"))?;
    Ok(folder)
}
