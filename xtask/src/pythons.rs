//! Pythons of a certain version, where systems, pyenv and uv keep them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{UserError, output_of};

/// Program of a Python of this version, such as `3.12`.
pub fn find(version: &str) -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let pyenv = std::env::var_os("PYENV_ROOT").map_or_else(|| home.join(".pyenv"), PathBuf::from);
    let folders = [pyenv.join("versions"), home.join(".local/share/uv/python")];
    find_among(version, &folders)
}

/// The one on the path, or else the newest in these folders of installed versions.
fn find_among(version: &str, folders: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let name = format!("python{version}");
    let installed =
        folders.iter().flat_map(|folder| installed(folder, version)).map(|home| home.join("bin").join(&name));
    let mut candidates = std::iter::once(PathBuf::from(&name)).chain(installed);
    // pyenv has a program of this name on the path that fails unless the version is selected.
    candidates.find(|program| output_of(Command::new(program).arg("--version")).is_some()).ok_or_else(|| {
        UserError(format!(
            "Python {version} is not installed\nhint: run `uv python install {version}` or `pyenv install {version}`; Debian 12 has \
             no package of it"
        ))
        .into()
    })
}

/// Folders of installed Pythons of a version, the newest first: `3.12.1` of pyenv, `cpython-3.12.1-linux-x86_64-gnu` of uv.
fn installed(folder: &Path, version: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let patch = |path: &PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let rest = name.strip_prefix("cpython-").unwrap_or(&name).strip_prefix(version)?.strip_prefix('.')?.to_owned();
        rest.split('-').next()?.parse::<u32>().ok()
    };
    let mut found: Vec<(u32, PathBuf)> = entries.filter_map(|path| Some((patch(&path)?, path))).collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn install(folder: &Path, home: &str, script: &str) {
        let program = folder.join(home).join("bin/python9.8");
        fs::create_dir_all(program.parent().expect("a folder")).expect("created");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    #[test]
    fn the_newest_installed_version_that_runs_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pyenv, uv) = (folder.path().join("versions"), folder.path().join("uv"));
        let folders = [pyenv.clone(), uv.clone()];
        let error = find_among("9.8", &folders).expect_err("none");
        assert!(error.is::<UserError>() && error.to_string().contains("`uv python install 9.8`"), "{error}");
        install(&uv, "cpython-9.8.2-linux-x86_64-gnu", "echo 9.8.2");
        assert!(find_among("9.8", &folders).expect("of uv").starts_with(&uv));
        install(&pyenv, "9.8.9", "echo 9.8.9");
        install(&pyenv, "9.8.10", "echo 9.8.10");
        install(&pyenv, "9.80.1", "echo 9.80.1");
        assert!(find_among("9.8", &folders).expect("of pyenv").starts_with(pyenv.join("9.8.10")));
        install(&pyenv, "9.8.11", "exit 127");
        assert!(find_among("9.8", &folders).expect("of pyenv").starts_with(pyenv.join("9.8.10")));
    }
}
