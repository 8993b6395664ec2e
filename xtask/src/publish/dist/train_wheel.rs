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
    let torch = libtorch::VERSION;
    let headers = [
        "Metadata-Version: 2.4".to_owned(),
        "Name: gymkhana-rl-train".to_owned(),
        format!("Version: {VERSION}"),
        "Summary: Gymkhana's programs with the trainer and libtorch for processors".to_owned(),
        format!("License: Apache-2.0; the licences of libtorch's parts are in {PACKAGE}/libtorch/licenses"),
        "License-File: LICENSE".to_owned(),
        "Classifier: Development Status :: 4 - Beta".to_owned(),
        "Classifier: Operating System :: POSIX :: Linux".to_owned(),
        "Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence".to_owned(),
        "Requires-Python: >=3.10".to_owned(),
        format!("Requires-Dist: gymkhana-rl=={VERSION}"),
        "Provides-Extra: cuda".to_owned(),
        format!("Requires-Dist: torch=={torch}; extra == \"cuda\""),
        "Description-Content-Type: text/markdown".to_owned(),
    ];
    format!("{}\n\n{DESCRIPTION}", headers.join("\n"))
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
