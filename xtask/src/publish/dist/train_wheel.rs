//! The wheel `gymkhana-rl-train`: the programs with libtorch's CPU part, for an environment without `torch`.
//!
//! It has no scripts of its own: `host` and `gymkhana` belong to `gymkhana-rl`, which it requires, and which starts its
//! program. So each file belongs to one package.

use std::fs;
use std::process::Command;

use anyhow::Context as _;

use super::archive::Parts;
use super::{Release, VERSION, copy};
use crate::publish::PYTHON;
use crate::setup::libtorch;
use crate::step::execute;
use crate::tools::ensure_python;

/// Name of the Python package and the beginning of the wheel's.
const PACKAGE: &str = "gymkhana_rl_train";

/// Writes the wheel into the folder of the release.
pub fn pack(release: &Release<'_>, parts: &Parts<'_>) -> anyhow::Result<()> {
    let folder = release.folder("wheel")?;
    let package = folder.join(PACKAGE);
    parts.place(&package)?;
    fs::write(package.join("__init__.py"), INIT)?;
    let information = folder.join(format!("{PACKAGE}-{VERSION}.dist-info"));
    fs::create_dir_all(information.join("licenses"))?;
    copy(&release.workspace.root.join("LICENSE"), &information.join("licenses/LICENSE"))?;
    let write = |name: &str, text: String| {
        fs::write(information.join(name), text).with_context(|| format!("cannot write `{name}`"))
    };
    write("METADATA", metadata())?;
    write("WHEEL", tags(&parts.programs.glibc))?;
    let python = ensure_python(&release.workspace.root, "package", PYTHON)?;
    let mut command = Command::new(python);
    command.args(["-m", "wheel", "pack", "--dest-dir"]).arg(&release.out).arg(&folder);
    execute(command.env("SOURCE_DATE_EPOCH", &release.time))
}

/// The package's module.
const INIT: &str =
    "\"\"\"Gymkhana's programs with the trainer. The command `host` of `gymkhana-rl` starts them.\"\"\"\n";

fn metadata() -> String {
    format!(
        "Metadata-Version: 2.4\nName: gymkhana-rl-train\nVersion: {VERSION}\nSummary: The trainer of Gymkhana: \
         reinforcement learning of language-model agents, with libtorch for processors\nLicense-File: \
         LICENSE\nClassifier: Development Status :: 4 - Beta\nClassifier: Operating System :: POSIX :: \
         Linux\nClassifier: Topic :: Scientific/Engineering :: Artificial Intelligence\nRequires-Python: \
         >=3.10\nRequires-Dist: gymkhana-rl=={VERSION}\nProvides-Extra: cuda\nRequires-Dist: torch=={torch}; extra == \
         \"cuda\"\nDescription-Content-Type: text/markdown\n\n{DESCRIPTION}",
        torch = libtorch::VERSION
    )
}

/// Text of the package's page.
const DESCRIPTION: &str = "\
# gymkhana-rl-train

`host run` and the other commands of [gymkhana-rl](https://pypi.org/project/gymkhana-rl/) that need a model. The package
contains the libraries of libtorch for processors and does not use an installed `torch`.

`gymkhana-rl-train[cuda]` installs the package `torch` of the same version, whose libraries are then used instead, with
its GPUs. Licences of libtorch and of its parts are in `gymkhana_rl_train/libtorch/licenses`.
";

fn tags(glibc: &str) -> String {
    let platform = format!("manylinux_{}_x86_64", glibc.replace('.', "_"));
    format!(
        "Wheel-Version: 1.0\nGenerator: cargo-xtask ({VERSION})\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_of_the_package_and_of_torch_are_exact() {
        let metadata = metadata();
        let headers = metadata.split("\n\n").next().expect("headers");
        let values = |name: &str| {
            let beginning = format!("{name}: ");
            headers.lines().filter_map(|line| line.strip_prefix(&beginning)).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(values("Name"), ["gymkhana-rl-train"]);
        let own = format!("gymkhana-rl=={VERSION}");
        assert_eq!(values("Requires-Dist"), [own.as_str(), "torch==2.11.0; extra == \"cuda\""]);
        assert!(tags("2.34").ends_with("Tag: py3-none-manylinux_2_34_x86_64\n"));
    }
}
