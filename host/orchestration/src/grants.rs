//! Grants of a run file: assets and outbound access of each plugin.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_egress::{CompletionSource, Egress, HttpGrant, ModelServer, Offline};
use gymkhana_net::Secret;
use gymkhana_registry::{Capability, Digest};
use gymkhana_sandbox::{AssetContent, Assets, Grants, Outbound, Plugin, Quota};
use gymkhana_store::{RunFolder, RunReader};

use crate::error::{Classify, RunError, RunResult};
use crate::host_io::OnHost;
use crate::recorded_runs::run_file_of;
use gymkhana_config::{EpisodeRules, ModelSection, PluginSection};

/// Prefix of a pinned asset in a run file.
const PINNED: &str = "sha256:";

/// Contents of a run's assets, by digest.
#[derive(Default)]
pub struct AssetFiles(BTreeMap<Digest, AssetContent>);

impl AssetFiles {
    /// Reads the assets of the rules relative to `folder` and replaces their paths by digests. In a resumed run, a
    /// missing file is read from the run's folder.
    pub fn pin(rules: &mut EpisodeRules, folder: &Path, resumed: Option<&RunReader>) -> RunResult<Self> {
        let begun = resumed.and_then(|run| run_file_of(run, &[]).ok());
        let mut files = Self::default();
        for (plugin, section) in &mut rules.plugins {
            let pinned =
                |name: &str| begun.as_ref().and_then(|begun| begun.rules.plugins.get(plugin)?.assets.get(name));
            let kept = |name: &str| Some(open_recorded(resumed?, &digest(pinned(name)?).ok()?));
            files.pin_section(plugin, section, folder, kept)?;
        }
        Ok(files)
    }

    /// Reads the assets of one section and replaces their paths by digests. `kept` is the content of a missing file.
    fn pin_section(
        &mut self,
        plugin: &str,
        section: &mut PluginSection,
        folder: &Path,
        kept: impl Fn(&str) -> Option<RunResult<AssetContent>>,
    ) -> RunResult<()> {
        for (name, path) in &mut section.assets {
            let found = folder.join(&*path);
            let wrong = format!(
                "plugins.{plugin}.assets: `{name}` cannot be read from `{}`\nhint: check the path; it is relative \
                 to the run file",
                found.display()
            );
            let content = match AssetContent::open(&found) {
                Ok(content) => content,
                Err(error) => match kept(name) {
                    Some(kept) => kept?,
                    None => return Err(error).user_context(wrong),
                },
            };
            *path = format!("{PINNED}{}", content.digest());
            self.0.insert(content.digest(), content);
        }
        Ok(())
    }

    /// Assets stored in a run's folder.
    pub fn recorded(rules: &EpisodeRules, run: &RunReader) -> RunResult<Self> {
        let mut files = Self::default();
        for pinned in rules.plugins.values().flat_map(|section| section.assets.values()) {
            let digest = digest(pinned)?;
            files.0.insert(digest, open_recorded(run, &digest)?);
        }
        Ok(files)
    }

    /// Stores the assets in the run's folder.
    pub fn store(&self, folder: &RunFolder) -> RunResult<()> {
        for (digest, content) in &self.0 {
            folder.add_asset(digest, &mut content.reader())?;
        }
        Ok(())
    }

    /// Stores the assets that these rules name.
    pub fn store_of(&self, rules: &EpisodeRules, folder: &RunFolder) -> RunResult<()> {
        for pinned in rules.plugins.values().flat_map(|section| section.assets.values()) {
            let digest = digest(pinned)?;
            if let Some(content) = self.0.get(&digest) {
                folder.add_asset(&digest, &mut content.reader())?;
            }
        }
        Ok(())
    }

    fn mount(&self, section: &PluginSection) -> RunResult<Assets> {
        let asset = |(name, pinned): (&String, &String)| {
            let digest = digest(pinned)?;
            let missing = || RunError::internal(format!("asset `{name}` ({PINNED}{digest}) was not loaded"));
            Ok((name.clone(), self.0.get(&digest).cloned().ok_or_else(missing)?))
        };
        section.assets.iter().map(asset).collect()
    }
}

/// An asset in a run's folder.
fn open_recorded(run: &RunReader, digest: &Digest) -> RunResult<AssetContent> {
    let open = |path: &Path| AssetContent::open(path).map(|content| (content.clone(), content.digest()));
    Ok(run.asset(digest, open)?)
}

fn digest(pinned: &str) -> RunResult<Digest> {
    let digest = pinned.strip_prefix(PINNED).and_then(|digest| digest.parse().ok());
    digest.ok_or_else(|| {
        RunError::user(format!("`{pinned}` in the run's run.toml is not an asset's digest\nhint: restore the file"))
    })
}

/// Source of responses to outbound calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OutboundMode {
    /// The network.
    Live,
    /// A recording: no key is needed and nothing is sent.
    Recorded,
}

/// Capabilities that a section of the run file grants.
pub fn grants(section: &PluginSection) -> Grants {
    let granted = [
        (Capability::Assets, !section.assets.is_empty()),
        (Capability::Model, section.model.is_some()),
        (Capability::Http, !section.http.is_empty()),
        (Capability::Tools, section.tools),
    ];
    Grants(granted.into_iter().filter_map(|(capability, granted)| granted.then_some(capability)).collect())
}

/// The plugin with the run file's grants.
pub fn grant(rules: &EpisodeRules, assets: &AssetFiles, mode: OutboundMode, plugin: &Plugin) -> RunResult<Plugin> {
    let Some(section) = rules.plugins.get(plugin.name()) else { return Ok(plugin.clone()) };
    grant_section(section, &rules.models, assets, mode, plugin)
}

/// The plugin with the grants of a section alone, outside of a run. Paths of assets are relative to `folder`, and `models`
/// are those that the section may name.
pub fn grant_alone(
    section: &PluginSection,
    models: &BTreeMap<String, ModelSection>,
    folder: &Path,
    plugin: &Plugin,
) -> RunResult<Plugin> {
    let (mut section, mut assets) = (section.clone(), AssetFiles::default());
    assets.pin_section(plugin.name(), &mut section, folder, |_| None)?;
    grant_section(&section, models, &assets, OutboundMode::Live, plugin)
}

fn grant_section(
    section: &PluginSection,
    models: &BTreeMap<String, ModelSection>,
    assets: &AssetFiles,
    mode: OutboundMode,
    plugin: &Plugin,
) -> RunResult<Plugin> {
    let name = plugin.name();
    let wanted = &plugin.manifest().capabilities;
    if let Some(unasked) = grants(section).0.into_iter().find(|capability| !wanted.contains(capability)) {
        return Err(RunError::user(format!(
            "[plugins.{name}] grants `{unasked}`, but plugin `{name}` does not request it\nhint: remove the grant"
        )));
    }
    let granted = plugin.with_assets(assets.mount(section)?);
    match outbound(models, name, section, mode)? {
        Some(outbound) => Ok(granted.with_granted_outbound(outbound)),
        None => Ok(granted),
    }
}

/// Outbound access of a plugin; `None` without a grant.
fn outbound(
    models: &BTreeMap<String, ModelSection>,
    plugin: &str,
    section: &PluginSection,
    mode: OutboundMode,
) -> RunResult<Option<Arc<dyn Outbound>>> {
    let model = section.model.as_ref().and_then(|model| Some((model, models.get(model)?)));
    if model.is_none() && section.http.is_empty() {
        return Ok(None);
    }
    let quota = Quota {
        model_calls: model.map_or(0, |(_, model)| model.calls),
        model_tokens: model.map_or(0, |(_, model)| model.tokens),
        http_requests: if section.http.is_empty() { 0 } else { section.http_requests },
        tool_calls: 0,
    };
    if mode == OutboundMode::Recorded {
        return Ok(Some(Arc::new(Offline(quota))));
    }
    let model = model.map(|(name, model)| connect(name, model)).transpose()?.map(Arc::new);
    let http = if section.http.is_empty() { None } else { Some(allow(plugin, section)?) };
    let egress: Arc<dyn Outbound> = Arc::new(Egress { model, http, quota });
    Ok(Some(Arc::new(OnHost::new(egress))))
}

fn connect(name: &str, section: &ModelSection) -> RunResult<CompletionSource> {
    let (Some(url), Some(model)) = (&section.url, &section.name) else {
        return Ok(CompletionSource::Script(section.script.clone().unwrap_or_default()));
    };
    let key = section.key_env.as_ref().map(|env| secret(env, &format!("models.{name}.key_env"))).transpose()?;
    let mut server = ModelServer::new(url.clone(), model.clone(), key).user_error()?;
    (server.time, server.retries) = (Duration::from_secs_f64(section.seconds), section.retries);
    Ok(CompletionSource::Server(server))
}

fn allow(plugin: &str, section: &PluginSection) -> RunResult<HttpGrant> {
    let rule = |http: &gymkhana_config::HttpSection| {
        let rule = http.rule().user_error()?;
        let Some(hidden) = &http.secret else { return Ok(rule) };
        let value = secret(&hidden.env, &format!("plugins.{plugin}.http"))?;
        let rule = rule.with_secret(&hidden.header, value);
        rule.map_err(|error| RunError::user(format!("plugins.{plugin}.http: {error}")))
    };
    HttpGrant::new(section.http.iter().map(rule).collect::<RunResult<_>>()?).user_error()
}

/// A secret from an environment variable of the host; `key` names the run-file key.
pub fn secret(variable: &str, key: &str) -> RunResult<Secret> {
    match std::env::var(variable) {
        Ok(value) if !value.trim().is_empty() => Ok(Secret::new(&value)),
        _ => Err(RunError::user(format!(
            "{key} cannot be read: the environment variable {variable} is not set\nhint: set it to the secret, or \
             remove {key}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RunErrorKind;

    #[test]
    fn a_missing_asset_is_an_error() {
        let digest = Digest::of(b"one two three");
        let assets = BTreeMap::from([("words.txt".to_owned(), format!("{PINNED}{digest}"))]);
        let section = PluginSection { assets, ..PluginSection::default() };
        let error = AssetFiles::default().mount(&section).map(drop).expect_err("the asset was not loaded");
        assert_eq!(error.kind(), RunErrorKind::Internal);
        assert!(error.to_string().starts_with("asset `words.txt` (sha256:"), "{error}");
        let mut files = AssetFiles::default();
        files.0.insert(digest, AssetContent::from(b"one two three".as_slice()));
        files.mount(&section).map(drop).expect("the asset is loaded");
    }
}
