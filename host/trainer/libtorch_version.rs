// A module of the programs that check a libtorch, and included by build scripts: they share no crate.

/// Files of a libtorch folder that may name its version: that of PyTorch's own archives, then that of every torch
/// package of Python.
const LIBTORCH_VERSION_FILES: [&str; 2] = ["build-version", "version.py"];

/// Version of the libtorch in a folder, such as `2.11.0+cpu`; `None` if no file names one.
pub fn libtorch_version(folder: &std::path::Path) -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let [archive, package] = LIBTORCH_VERSION_FILES;
    let whole = read(archive).map(|text| text.trim().to_owned()).filter(|version| !version.is_empty());
    whole.or_else(|| {
        let text = read(package)?;
        let value = text.lines().find_map(|line| line.strip_prefix("__version__")?.split_once('='))?.1.trim();
        let version = value.trim_matches(['\'', '"']);
        (!version.is_empty()).then(|| version.to_owned())
    })
}
