//! Cache of compiled plugins: its owner and its size.

use std::path::{Path, PathBuf};

use gymkhana_finding::Finding;
use gymkhana_orchestration::code_cache;
use gymkhana_sandbox::CacheFolder;

use crate::commands::cache::total;
use crate::error::{Classify, CliResult};
use crate::units::size;

const CHECK: &str = "cache";

/// State of the cache.
pub struct CacheState {
    /// Folder of the cache; `None` without a home folder.
    pub folder: Option<PathBuf>,
    /// Size and limit of the cache in bytes; the size is `None` before the first use.
    pub sizes: CliResult<(Option<u64>, u64)>,
}

/// Reads the cache in a folder.
pub fn probe(folder: Option<&Path>) -> CacheState {
    let sizes = || -> CliResult<(Option<u64>, u64)> {
        let limit = code_cache::max_bytes()?;
        let Some(cache) = folder.filter(|folder| folder.exists()).map(CacheFolder::new) else {
            return Ok((None, limit));
        };
        cache.check_access().user_error()?;
        Ok((Some(total(&cache.entries().user_error()?)), limit))
    };
    CacheState { folder: folder.map(Path::to_owned), sizes: sizes() }
}

/// Checks that compiled plugins can be stored.
pub fn check(facts: &CacheState) -> Finding {
    let Some(folder) = facts.folder.as_ref().map(|folder| folder.display()) else {
        let message = "no folder for compiled plugins, which are compiled every time";
        return Finding::warn(CHECK, format!("{message}\nhint: set HOME or XDG_CACHE_HOME"));
    };
    match &facts.sizes {
        Err(error) => Finding::fail(CHECK, error),
        Ok((None, _)) => Finding::ok(CHECK, format!("{folder} is created at first use")),
        Ok((Some(bytes), limit)) => Finding::ok(CHECK, format!("{} of {} in {folder}", size(*bytes), size(*limit))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use gymkhana_finding::FindingStatus;

    #[test]
    fn the_size_is_shown_with_its_limit() {
        let folder = || Some(PathBuf::from("/c"));
        let whole = check(&CacheState { folder: folder(), sizes: Ok((Some(3 << 20), 2 << 30)) });
        assert_eq!(whole.lines(), "ok    cache     3.0 MiB of 2.0 GiB in /c");
        let unused = check(&CacheState { folder: folder(), sizes: Ok((None, 2 << 30)) });
        assert_eq!(unused.lines(), "ok    cache     /c is created at first use");
        assert_eq!(check(&CacheState { folder: None, sizes: Ok((None, 2 << 30)) }).status, FindingStatus::Warn);
    }

    #[test]
    fn a_folder_that_others_can_access_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let set = |mode| {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).expect("set");
            check(&probe(Some(folder.path())))
        };
        let open = set(0o750);
        assert_eq!(open.status, FindingStatus::Fail);
        assert!(open.text.contains("other users can access the folder"), "{open:?}");
        assert_eq!(open.hint.as_deref(), Some("run `chmod 700` on it, or choose another"));
        assert_eq!(set(0o700).status, FindingStatus::Ok);
    }
}
