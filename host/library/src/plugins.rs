//! The plugins that a run file names.

use std::path::Path;

use gymkhana_config::EpisodeRules;
use gymkhana_orchestration::plugins::{pin, read_file_of};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};
use gymkhana_registry::{Lock, PluginFile, PluginSource};
use gymkhana_registry_client::{Pins, PluginResolver};

/// Reads or downloads the plugins of the rules; paths are relative to `base`.
///
/// # Errors
/// If none is named, or one cannot be read or resolved.
pub(crate) async fn fetch(
    rules: &EpisodeRules,
    base: &Path,
    reporter: &dyn Reporter,
) -> RunResult<(Vec<PluginFile>, Lock)> {
    let (mut read, mut wanted) = (vec![], vec![]);
    for (name, source) in rules.sources().user_error()? {
        match source {
            PluginSource::File(path) => read.push(read_file_of(name, &base.join(path))?),
            PluginSource::Name(requirement) => wanted.push(requirement),
        }
    }
    if !wanted.is_empty() {
        let resolver = PluginResolver::here(false).user_error()?;
        let fetched = resolver.fetch(&wanted, &Pins::Added, &|text| reporter.status(text)).await;
        resolver.client().take_notices().iter().for_each(|notice| reporter.status(notice));
        read.extend(fetched.user_error()?);
    }
    if read.is_empty() {
        return Err(RunError::user("the run file names no plugins").with_hint("name them in [plugins]"));
    }
    pin(read)
}
