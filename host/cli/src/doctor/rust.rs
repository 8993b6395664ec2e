//! Rust toolchain with the target of plugins.

use std::path::Path;

use gymkhana_finding::Finding;

use super::programs::first_line;
use crate::plugin::build::TARGET;
use crate::plugin::build::tools::RUST_MISSING;

const CHECK: &str = "rust";

/// State of the toolchain.
pub struct ToolchainState {
    /// Output of `rustc --version`; `None` without Rust.
    pub version: Option<String>,
    /// The target's standard library is installed.
    pub has_target: bool,
}

/// Asks the toolchain of the working directory.
pub fn probe() -> ToolchainState {
    let rustc = |arguments: &[&str]| first_line(Path::new("rustc"), arguments);
    let library = rustc(&["--print", "target-libdir", "--target", TARGET]);
    ToolchainState {
        version: rustc(&["--version"]),
        has_target: library.is_some_and(|folder| Path::new(&folder).is_dir()),
    }
}

/// Checks that plugins in Rust can be built.
pub fn check(facts: &ToolchainState) -> Finding {
    match &facts.version {
        None => Finding::warn(CHECK, RUST_MISSING),
        Some(version) if facts.has_target => Finding::ok(CHECK, format!("{version} with the target {TARGET}")),
        Some(version) => {
            let message = format!("{version} without the target {TARGET}\nhint: run `rustup target add {TARGET}`");
            Finding::warn(CHECK, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_finding::FindingStatus;

    #[test]
    fn the_target_is_required() {
        let check = |version: Option<&str>, has_target| {
            check(&ToolchainState { version: version.map(str::to_owned), has_target })
        };
        assert_eq!(check(None, false).text, "Rust is not installed");
        let whole = check(Some("rustc 1.95.0"), true);
        assert_eq!(
            (whole.status, whole.text.as_str()),
            (FindingStatus::Ok, "rustc 1.95.0 with the target wasm32-wasip2")
        );
        let half = check(Some("rustc 1.95.0"), false);
        assert_eq!(
            (half.status, half.hint.as_deref()),
            (FindingStatus::Warn, Some("run `rustup target add wasm32-wasip2`"))
        );
    }
}
