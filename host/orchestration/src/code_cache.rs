//! Cache of compiled plugins: its folder and its size limit, from the environment.

use std::ffi::OsStr;
use std::path::PathBuf;

use gymkhana_sandbox::{DEFAULT_CACHE_BYTES, Sandbox, SandboxConfig, SandboxError};

use crate::error::{Classify, RunError, RunResult};

/// Environment variable with the size limit of the cache in MiB.
pub const LIMIT_VARIABLE: &str = "GYMKHANA_CACHE_MIB";

/// A mebibyte in bytes.
const MIB: u64 = 1 << 20;

/// The cache in the user's cache folder, if there is one.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    Some(caches()?.join("compiled"))
}

/// Folder of the language runtimes that quick builds of Python and JavaScript plugins reuse. The SDKs bound its size.
#[must_use]
pub fn bases() -> Option<PathBuf> {
    Some(caches()?.join("bases"))
}

/// Folder of the files that workers fetched from the bus, by digest.
#[must_use]
pub fn worker_files() -> Option<PathBuf> {
    Some(caches()?.join("workers"))
}

fn caches() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("gymkhana"))
}

/// Size limit of the cache in bytes.
///
/// # Errors
/// If the environment variable is not a number.
pub fn max_bytes() -> RunResult<u64> {
    parse_limit(std::env::var_os(LIMIT_VARIABLE).as_deref())
}

fn parse_limit(variable: Option<&OsStr>) -> RunResult<u64> {
    let Some(text) = variable.filter(|text| !text.is_empty()) else { return Ok(DEFAULT_CACHE_BYTES) };
    let mebibytes = text.to_str().and_then(|text| text.trim().parse::<u64>().ok());
    mebibytes.and_then(|mebibytes| mebibytes.checked_mul(MIB)).ok_or_else(|| {
        RunError::user(format!(
            "the cache of compiled plugins has no size limit: `{}` of {LIMIT_VARIABLE} is not a number of MiB\nhint: set \
             for example {LIMIT_VARIABLE}=2048",
            text.display()
        ))
    })
}

/// A sandbox with the cache. If the cache cannot be used, `warn` gets the reason, and plugins are compiled every time.
///
/// # Errors
/// If the sandbox cannot be set up, or the limit is not a number.
pub fn sandbox(config: SandboxConfig, warn: impl FnOnce(&str)) -> RunResult<Sandbox> {
    let config = SandboxConfig { cache: folder(), cache_bytes: max_bytes()?, ..config };
    match Sandbox::new(&config) {
        Err(SandboxError::Cache(error)) => {
            warn(&format!("compiled plugins are not cached: {error}"));
            Sandbox::new(&SandboxConfig { cache: None, ..config }).user_error()
        }
        other => other.user_error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_two_gibibytes_unless_the_variable_is_set() {
        let limit = |text: &str| parse_limit(Some(OsStr::new(text))).ok();
        assert_eq!(parse_limit(None).ok(), Some(2_147_483_648));
        assert_eq!(limit(""), Some(2_147_483_648));
        assert_eq!((limit("0"), limit("3")), (Some(0), Some(3_145_728)));
        assert_eq!((limit("2 GiB"), limit("-1"), limit("17592186044416")), (None, None, None));
        let error = parse_limit(Some(OsStr::new("much"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the cache of compiled plugins has no size limit: `much` of GYMKHANA_CACHE_MIB is not a number of MiB\n\
             hint: set for example GYMKHANA_CACHE_MIB=2048"
        );
    }
}
