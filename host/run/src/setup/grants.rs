//! From the grants of a run file to what each plugin may read and whom it may ask.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_egress::{Egress, HttpGrant, Model, ModelServer, Offline};
use gymkhana_net::Secret;
use gymkhana_registry::{Capability, Digest};
use gymkhana_sandbox::{Assets, Grants, Outbound, Plugin, Quota};
use gymkhana_store::{RunFolder, RunReader};

use crate::error::{Classify, RunError, RunResult};
use gymkhana_config::{ModelSection, PluginSection, RunFile};

/// How a pinned asset is written in a run file.
const PINNED: &str = "sha256:";

/// The contents of a run's assets.
#[derive(Default)]
pub struct AssetFiles(BTreeMap<Digest, Arc<[u8]>>);

impl AssetFiles {
    /// Reads the files that the run file names, relative to its folder, and writes their digests in place of the
    /// paths. Where a run is taken up again, a file that is not there any more comes from that run's folder.
    pub fn pin(file: &mut RunFile, folder: &Path, resumed: Option<&RunReader>) -> RunResult<Self> {
        let begun = resumed.and_then(|run| RunFile::parse(&run.run_text().ok()?, "run.toml", &[]).ok());
        let mut files = Self::default();
        for (plugin, section) in &mut file.plugins {
            for (name, path) in &mut section.assets {
                let found = folder.join(&*path);
                let wrong = format!("plugins.{plugin}.assets: `{name}` is `{}`, which cannot be read", found.display());
                let pinned = begun.as_ref().and_then(|begun| begun.plugins.get(plugin)?.assets.get(name));
                let kept = || Some(resumed?.asset(&digest(pinned?).ok()?));
                let bytes: Arc<[u8]> = match std::fs::read(&found) {
                    Ok(bytes) => bytes.into(),
                    Err(error) => match kept() {
                        Some(kept) => kept?.into(),
                        None => return Err(error).user_context(wrong),
                    },
                };
                let digest = Digest::of(&bytes);
                *path = format!("{PINNED}{digest}");
                files.0.insert(digest, bytes);
            }
        }
        Ok(files)
    }

    /// The files that a run's folder holds.
    pub fn recorded(file: &RunFile, run: &RunReader) -> RunResult<Self> {
        let mut files = Self::default();
        for pinned in file.plugins.values().flat_map(|section| section.assets.values()) {
            let digest = digest(pinned)?;
            files.0.insert(digest, run.asset(&digest)?.into());
        }
        Ok(files)
    }

    /// Keeps them in the run's folder.
    pub fn keep(&self, folder: &RunFolder) -> RunResult<()> {
        for bytes in self.0.values() {
            folder.add_asset(bytes)?;
        }
        Ok(())
    }

    fn mount(&self, section: &PluginSection) -> RunResult<Assets> {
        let asset = |(name, pinned): (&String, &String)| {
            let bytes = self.0.get(&digest(pinned)?).cloned().unwrap_or_default();
            Ok((name.clone(), bytes))
        };
        section.assets.iter().map(asset).collect()
    }
}

fn digest(pinned: &str) -> RunResult<Digest> {
    let digest = pinned.strip_prefix(PINNED).and_then(|digest| digest.parse().ok());
    digest.ok_or_else(|| RunError::user(format!("`{pinned}` in the run's run.toml pins no asset; restore the file")))
}

/// Whether plugins ask the world, or are answered from a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OutboundMode {
    /// The world.
    Live,
    /// A record: no key is needed, and nothing is sent.
    Recorded,
}

/// What a section of the run file grants.
pub fn grants(section: &PluginSection) -> Grants {
    let granted = [
        (Capability::Assets, !section.assets.is_empty()),
        (Capability::Model, section.model.is_some()),
        (Capability::Http, !section.http.is_empty()),
        (Capability::Tools, section.tools),
    ];
    Grants(granted.into_iter().filter_map(|(capability, granted)| granted.then_some(capability)).collect())
}

/// The plugin with what the run file grants it.
pub fn grant(file: &RunFile, assets: &AssetFiles, asking: OutboundMode, plugin: &Plugin) -> RunResult<Plugin> {
    let name = plugin.name();
    let Some(section) = file.plugins.get(name) else { return Ok(plugin.clone()) };
    let wanted = &plugin.manifest().capabilities;
    if let Some(unasked) = grants(section).0.into_iter().find(|capability| !wanted.contains(capability)) {
        return Err(RunError::user(format!(
            "[plugins.{name}] grants `{unasked}`, but plugin `{name}` does not ask for it; leave it out"
        )));
    }
    let granted = plugin.with_assets(assets.mount(section)?);
    match world(file, name, section, asking)? {
        Some(world) => Ok(granted.granting(world)),
        None => Ok(granted),
    }
}

/// Whom a plugin may ask, if anybody.
fn world(
    file: &RunFile,
    plugin: &str,
    section: &PluginSection,
    asking: OutboundMode,
) -> RunResult<Option<Arc<dyn Outbound>>> {
    let model = section.model.as_ref().and_then(|model| Some((model, file.models.get(model)?)));
    if model.is_none() && section.http.is_empty() {
        return Ok(None);
    }
    let quota = Quota {
        model_calls: model.map_or(0, |(_, model)| model.calls),
        model_tokens: model.map_or(0, |(_, model)| model.tokens),
        http_requests: if section.http.is_empty() { 0 } else { section.http_requests },
        tool_calls: 0,
    };
    if asking == OutboundMode::Recorded {
        return Ok(Some(Arc::new(Offline(quota))));
    }
    let model = model.map(|(name, model)| connect(name, model)).transpose()?.map(Arc::new);
    let http = if section.http.is_empty() { None } else { Some(allow(plugin, section)?) };
    Ok(Some(Arc::new(Egress { model, http, quota })))
}

fn connect(name: &str, section: &ModelSection) -> RunResult<Model> {
    let (Some(url), Some(model)) = (&section.url, &section.name) else {
        return Ok(Model::Script(section.script.clone().unwrap_or_default()));
    };
    let key = section.key_env.as_ref().map(|env| secret(env, &format!("models.{name}.key_env"))).transpose()?;
    let mut server = ModelServer::new(url.clone(), model.clone(), key).user_error()?;
    (server.time, server.retries) = (Duration::from_secs_f64(section.seconds), section.retries);
    Ok(Model::Server(server))
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

/// A secret from the host's environment.
pub(crate) fn secret(variable: &str, key: &str) -> RunResult<Secret> {
    match std::env::var(variable) {
        Ok(value) if !value.trim().is_empty() => Ok(Secret::new(&value)),
        _ => Err(RunError::user(format!(
            "the environment variable {variable}, which {key} names, is not set; set it to the secret, or take the \
             line out of the run file"
        ))),
    }
}
