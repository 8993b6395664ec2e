//! libtorch of `gymkhana-train`: its folder and its version.

use std::path::{Path, PathBuf};

#[path = "../../trainer/libtorch_version.rs"]
mod libtorch_version;

use libtorch_version::libtorch_version;

/// Required version.
pub const REQUIRED: &str = env!("GYMKHANA_LIBTORCH_VERSION");

/// Folder at build time; empty in a build without the trainer.
const BUILT_WITH: &str = env!("GYMKHANA_LIBTORCH");

/// Folder of libtorch, and its name in messages: the user's own of LIBTORCH, else that of the program's installation, else
/// that of the build. Empty for a program without a trainer.
pub fn folder(users_own: Option<PathBuf>) -> (PathBuf, &'static str) {
    if let Some(folder) = users_own {
        return (folder, "LIBTORCH");
    }
    let installed = std::env::current_exe().ok().and_then(|program| installed(&program));
    installed.unwrap_or_else(|| (PathBuf::from(BUILT_WITH), "the build's libtorch"))
}

/// libtorch of an installation, by the path of its program `HOME/bin/host`: the package `torch` beside a Python package
/// HOME if it has the required version, which may have CUDA; else `HOME/libtorch`.
fn installed(program: &Path) -> Option<(PathBuf, &'static str)> {
    let home = program.parent()?.parent()?;
    let torch = home.join("__init__.py").is_file().then(|| home.with_file_name("torch"));
    if let Some(torch) = torch.filter(|torch| is_required(&version(torch)) && torch.join("lib").is_dir()) {
        return Some((torch, "the installed package `torch`"));
    }
    let own = home.join("libtorch");
    own.is_dir().then_some((own, "the installation's libtorch"))
}

/// Version of the libtorch in a folder, such as `2.11.0+cpu`; empty if there is none.
pub fn version(folder: &Path) -> String {
    libtorch_version(folder).unwrap_or_default()
}

/// Returns whether this program can use a version.
pub fn is_required(version: &str) -> bool {
    version.split('+').next() == Some(REQUIRED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder of a libtorch, as a package of Python has it.
    fn torch(folder: &Path, version: &str) {
        fs::create_dir_all(folder.join("lib")).expect("a folder");
        fs::write(folder.join("version.py"), format!("__version__ = '{version}'\n")).expect("written");
    }

    #[test]
    fn an_installed_torch_of_the_required_version_comes_before_the_bundled_libtorch() {
        let site = tempfile::tempdir().expect("a folder");
        let (package, package_of_torch) = (site.path().join("gymkhana_rl_train"), site.path().join("torch"));
        let program = package.join("bin/host");
        let found = || installed(&program).map(|(folder, _)| folder);
        assert_eq!(found(), None, "a build");
        torch(&package.join("libtorch"), "2.11.0");
        torch(&package_of_torch, "2.11.0+cu130");
        assert_eq!(found(), Some(package.join("libtorch")), "an archive, beside a folder of any content");
        fs::write(package.join("__init__.py"), "").expect("written");
        assert_eq!(found(), Some(package_of_torch.clone()));
        torch(&package_of_torch, "2.10.0+cu130");
        assert_eq!(found(), Some(package.join("libtorch")), "another version");
        torch(&package_of_torch, "2.11.0");
        fs::remove_dir(package_of_torch.join("lib")).expect("removed");
        assert_eq!(found(), Some(package.join("libtorch")), "without libraries");
    }

    #[test]
    fn the_users_own_folder_comes_first() {
        assert_eq!(folder(Some("own".into())), ("own".into(), "LIBTORCH"));
    }
}
