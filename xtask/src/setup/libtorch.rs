//! Downloads libtorch into `.libtorch/` and verifies its hashes. A libtorch of the user is used unchanged.
//!
//! The Python registry has the only build that fits `tch`. Only the CPU libraries and the headers are unpacked from its
//! wheels, so that nothing links CUDA.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::step::{UserError, execute, output_of};

#[path = "../../../host/trainer/libtorch_version.rs"]
mod libtorch_version;

use libtorch_version::libtorch_version;

/// Version that `tch` requires, exactly.
pub const VERSION: &str = "2.11.0";

const REQUIREMENTS: &str = "\
torch==2.11.0 --hash=sha256:7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a
nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cuda-cupti==13.0.85 --hash=sha256:4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8
";

const UNPACK: &str = include_str!("unpack_libtorch.py");

/// A package of the Python registry with parts of libtorch.
pub struct Wheel {
    pub name: &'static str,
    pub version: &'static str,
    /// Digest of its file in hexadecimal digits.
    pub sha256: &'static str,
}

/// The packages that libtorch is unpacked from.
pub fn wheels() -> impl Iterator<Item = Wheel> {
    REQUIREMENTS.lines().filter_map(|line| {
        let (package, sha256) = line.split_once(" --hash=sha256:")?;
        let (name, version) = package.split_once("==")?;
        Some(Wheel { name, version, sha256 })
    })
}

/// Makes our own libtorch available with its licences, which older downloads lack, and returns its folder.
pub fn ensure_with_licenses(root: &Path) -> anyhow::Result<PathBuf> {
    let home = root.join(".libtorch");
    if !home.join("licenses").is_dir() {
        remove_file(&home.join("stamp"))?;
    }
    ensure_ours(&home)?;
    Ok(home)
}

/// Makes libtorch available to the build.
pub fn ensure(root: &Path) -> anyhow::Result<()> {
    let home = root.join(".libtorch");
    // `.cargo/config.toml` sets LIBTORCH to our folder when the user has not set it.
    match std::env::var_os("LIBTORCH") {
        Some(folder) if Path::new(&folder) != home.join("torch") => check_users_own(Path::new(&folder)),
        _ => ensure_ours(&home),
    }
}

fn check_users_own(folder: &Path) -> anyhow::Result<()> {
    let found = match libtorch_version(folder) {
        Some(version) if version.split('+').next() == Some(VERSION) => {
            eprintln!("    using your LIBTORCH, `{}`", folder.display());
            return Ok(());
        }
        Some(version) => format!("is version {version}"),
        None => "has neither `build-version` nor `version.py`".to_owned(),
    };
    Err(UserError(format!(
        "cannot use LIBTORCH `{}`: it {found}, and Gymkhana needs libtorch {VERSION}\nhint: set LIBTORCH to a folder of \
         that version, or unset it and run `cargo xtask setup`",
        folder.display()
    ))
    .into())
}

/// Fetches libtorch unless its stamp exists. The stamp is written last, so that an interrupted download is repeated.
fn ensure_ours(home: &Path) -> anyhow::Result<()> {
    let stamp = home.join("stamp");
    let is_done = || fs::read_to_string(&stamp).is_ok_and(|text| text == REQUIREMENTS);
    if is_done() {
        return Ok(());
    }
    fs::create_dir_all(home)?;
    let lock = File::create(home.join("lock"))?;
    lock.lock().context("`.libtorch/lock` cannot be locked")?;
    if is_done() {
        return Ok(());
    }
    let partial = home.join("partial");
    remove(&partial)?;
    fetch(&partial).inspect_err(|_| {
        // Frees half a gigabyte of wheels.
        let _ = remove(&partial);
    })?;
    for part in ["torch", "nvidia", "licenses"] {
        remove(&home.join(part))?;
        fs::rename(partial.join(part), home.join(part))?;
    }
    remove(&partial)?;
    File::create(&stamp)?.write_all(REQUIREMENTS.as_bytes())?;
    Ok(())
}

/// Downloads the wheels (544 MB) into a folder and unpacks the required part of them (499 MiB) there.
fn fetch(partial: &Path) -> anyhow::Result<()> {
    if output_of(Command::new("python3").args(["-m", "pip", "--version"])).is_none() {
        let message = "cannot fetch libtorch: Python 3 with pip is missing\nhint: on Debian or Ubuntu run `apt-get install \
                       python3-pip`, on Fedora `dnf install python3-pip`, or set LIBTORCH to your own libtorch";
        return Err(UserError(message.to_owned()).into());
    }
    let wheels = partial.join("wheels");
    fs::create_dir_all(&wheels)?;
    fs::write(partial.join("requirements.txt"), REQUIREMENTS)?;
    // The wheels are named by Python and platform tags; explicit tags make the pip of any Python accept them. Without
    // cache, because some versions of pip read cached files into memory whole.
    execute(
        Command::new("python3")
            .args(["-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"])
            .args(["--require-hashes", "--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp"])
            .args(["--abi", "cp311", "--abi", "none", "--abi", "abi3", "--platform", "manylinux_2_28_x86_64"])
            .args(["--platform", "manylinux_2_25_x86_64", "--platform", "manylinux2014_x86_64"])
            .args(["--requirement", "requirements.txt", "--dest", "wheels"])
            .current_dir(partial),
    )
    .context("cannot fetch libtorch (hint: check the network and the disk space, 2 GB)")?;
    execute(Command::new("python3").arg("-c").arg(UNPACK).arg(&wheels).arg(partial))
        .context("cannot unpack libtorch's wheels (hint: check the disk space, 2 GB)")?;
    // The binding always links `-ltorch`, whose real library requires CUDA.
    fs::write(partial.join("torch/lib/libtorch.so"), "INPUT ( libtorch_cpu.so )\n")?;
    fs::write(partial.join("torch/build-version"), format!("{VERSION}\n"))?;
    Ok(())
}

fn remove_file(file: &Path) -> anyhow::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("`{}` cannot be removed", file.display()))
        }
        _ => Ok(()),
    }
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("`{}` cannot be removed", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, file: Option<(&str, &str)>) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-libtorch-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        if let Some((name, text)) = file {
            fs::write(folder.join(name), text).expect("written");
        }
        folder
    }

    #[test]
    fn a_users_libtorch_is_used_or_refused_with_the_reason() {
        for (name, file, message) in [
            ("same", Some(("build-version", "2.11.0+cpu\n")), None),
            ("package", Some(("version.py", "__version__ = '2.11.0+cu130'\ndebug = False\n")), None),
            ("older", Some(("build-version", "2.9.1\n")), Some("is version 2.9.1")),
            ("older package", Some(("version.py", "__version__ = '2.9.1'\n")), Some("is version 2.9.1")),
            ("unnamed", Some(("version.py", "debug = False\n")), Some("has neither `build-version`")),
            ("nothing", None, Some("has neither `build-version` nor `version.py`")),
        ] {
            let folder = folder(name, file);
            let checked = check_users_own(&folder);
            fs::remove_dir_all(&folder).expect("removed");
            match message {
                None => checked.expect("the right version"),
                Some(message) => {
                    let error = checked.expect_err("another version");
                    assert!(error.is::<UserError>());
                    assert!(error.to_string().contains(message), "{error}");
                    assert!(error.to_string().contains(folder.to_string_lossy().as_ref()), "{error}");
                }
            }
        }
    }

    #[test]
    fn the_wheels_have_names_versions_and_digests() {
        let found: Vec<Wheel> = wheels().collect();
        assert_eq!(found.len(), REQUIREMENTS.lines().count());
        assert_eq!((found[0].name, found[0].version), ("torch", VERSION));
        assert!(found.iter().all(|wheel| wheel.sha256.len() == 64));
    }

    #[test]
    fn existing_files_are_not_fetched_again() {
        let home = folder("stamped", None);
        fs::write(home.join("stamp"), REQUIREMENTS).expect("written");
        ensure_ours(&home).expect("nothing to do");
        assert_eq!(fs::read_dir(&home).expect("listed").count(), 1);
        fs::remove_dir_all(&home).expect("removed");
    }
}
