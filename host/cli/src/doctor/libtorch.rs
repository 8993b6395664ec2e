//! libtorch: its folder, its version, and a GPU with the part of libtorch that uses it.

use std::path::{Path, PathBuf};

use gymkhana_finding::Finding;

use crate::libtorch;

/// Version file of the NVIDIA driver's kernel module.
const DRIVER: &str = "/proc/driver/nvidia/version";

/// Part of libtorch that uses GPUs.
const CUDA_LIBRARY: &str = "lib/libtorch_cuda.so";

/// State of libtorch and of the GPU.
pub struct LibtorchState {
    /// Folder of libtorch.
    pub folder: PathBuf,
    /// Version of libtorch; empty without it.
    pub version: String,
    /// It has the part for CUDA.
    pub has_cuda: bool,
    /// First line of the driver's version; `None` without a driver.
    pub driver: Option<String>,
}

/// Reads the folder of libtorch and the driver's version.
pub fn probe() -> LibtorchState {
    let (folder, _) = libtorch::folder(std::env::var_os("LIBTORCH").map(PathBuf::from));
    let driver = std::fs::read_to_string(Path::new(DRIVER)).ok();
    LibtorchState {
        version: libtorch::version(&folder),
        has_cuda: folder.join(CUDA_LIBRARY).exists(),
        driver: driver.map(|text| text.lines().next().unwrap_or_default().to_owned()),
        folder,
    }
}

/// Checks the version of libtorch. A program without the trainer, as the Python package has it, needs none.
pub fn check(facts: &LibtorchState) -> Finding {
    if facts.folder.as_os_str().is_empty() {
        let text = "the trainer is not installed\nhint: run `pip install gymkhana-rl-train` to train and sample models";
        return Finding::warn("libtorch", text);
    }
    let (folder, version, required) = (facts.folder.display(), &facts.version, libtorch::REQUIRED);
    if libtorch::is_required(version) {
        return Finding::ok("libtorch", format!("{version} in {folder}"));
    }
    let found = if version.is_empty() { "is missing".to_owned() } else { format!("is version {version}") };
    let hint = format!("set LIBTORCH to a folder of version {required}, or run `cargo xtask setup`");
    Finding::fail("libtorch", format!("{folder} {found}, but {required} is needed\nhint: {hint}"))
}

/// Checks that a GPU can be used, if there is one.
pub fn check_gpu(facts: &LibtorchState) -> Finding {
    match (&facts.driver, facts.has_cuda) {
        (None, false) => Finding::ok("gpu", "no NVIDIA driver; models use the CPU"),
        (Some(driver), true) => Finding::ok("gpu", format!("{driver}; libtorch has CUDA")),
        (Some(_), false) => Finding::warn(
            "gpu",
            format!(
                "there is an NVIDIA driver, but libtorch has no CUDA\nhint: set LIBTORCH to a libtorch {} with CUDA, or run \
                 `pip install gymkhana-rl-train[cuda]`, to use the GPU",
                libtorch::REQUIRED
            ),
        ),
        (None, true) => Finding::warn(
            "gpu",
            "libtorch has CUDA, but there is no NVIDIA driver\nhint: install the driver, or start the container with \
             `--gpus all`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_finding::FindingStatus;

    fn facts(version: &str, has_cuda: bool, driver: Option<&str>) -> LibtorchState {
        let driver = driver.map(str::to_owned);
        LibtorchState { folder: PathBuf::from("/opt/libtorch"), version: version.to_owned(), has_cuda, driver }
    }

    #[test]
    fn the_required_version_passes_with_every_suffix() {
        for version in ["2.11.0", "2.11.0+cpu", "2.11.0+cu128"] {
            assert_eq!(check(&facts(version, false, None)).text, format!("{version} in /opt/libtorch"));
        }
        for (version, text) in [
            ("", "/opt/libtorch is missing, but 2.11.0 is needed"),
            ("2.9.1+cpu", "/opt/libtorch is version 2.9.1+cpu, but 2.11.0 is needed"),
        ] {
            let finding = check(&facts(version, false, None));
            assert_eq!((finding.status, finding.text.as_str()), (FindingStatus::Fail, text));
        }
    }

    #[test]
    fn a_program_without_the_trainer_names_its_package() {
        let finding = check(&LibtorchState { folder: PathBuf::new(), ..facts("", false, None) });
        assert_eq!(finding.status, FindingStatus::Warn);
        assert!(finding.text.starts_with("the trainer is not installed"), "{}", finding.text);
    }

    #[test]
    fn a_gpu_needs_a_driver_and_cuda() {
        let status = |has_cuda, driver| check_gpu(&facts("2.11.0", has_cuda, driver)).status;
        assert_eq!((status(false, None), status(true, Some("NVRM 570"))), (FindingStatus::Ok, FindingStatus::Ok));
        assert_eq!((status(false, Some("NVRM 570")), status(true, None)), (FindingStatus::Warn, FindingStatus::Warn));
    }
}
