//! Inputs of `host plugin` commands: the plugin's file, options, assets and setup.

use std::path::Path;

use gymkhana_conformance::{MAX_MEMORY, SuiteError};
use gymkhana_record::{FailureKind, NamedValue};
use gymkhana_registry::{Kind, Manifest, read_manifest, read_plugin_file};
use gymkhana_sandbox::{AssetContent, Assets, CompilerEffort, Grants, Limits, Plugin, Sandbox, SandboxConfig};

use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use gymkhana_orchestration::{code_cache, named_values};

/// A plugin file and its manifest.
pub struct PluginInputs {
    /// Origin in messages.
    pub origin: String,
    /// Bytes of the component.
    pub bytes: Vec<u8>,
    /// Manifest of the plugin.
    pub manifest: Manifest,
}

impl PluginInputs {
    /// Reads a plugin with a supported contract version.
    pub fn read(path: &Path) -> CliResult<Self> {
        Self::of(path.display().to_string(), read_plugin_file(path).user_error()?)
    }

    /// A plugin whose bytes were read, with a supported contract version.
    pub fn of(origin: String, bytes: Vec<u8>) -> CliResult<Self> {
        let cannot = || format!("plugin file `{origin}` cannot be used");
        let manifest = read_manifest(&bytes).user_context(cannot())?;
        manifest.check_contract().user_context(cannot())?;
        Ok(Self { origin, bytes, manifest })
    }

    /// Compiles the plugin with all capabilities that it requests.
    pub fn load(&self, sandbox: &Sandbox) -> CliResult<Plugin> {
        let grants = Grants(self.manifest.capabilities.clone());
        Plugin::from_bytes(sandbox, &self.origin, &self.bytes, &grants).user_error()
    }
}

/// The result of a suite or of a measurement: all errors but those of the host are the user's to fix.
pub fn suite_result<T>(result: Result<T, SuiteError>) -> CliResult<T> {
    match result {
        Err(SuiteError::Host(_)) => result.internal(),
        _ => result.user_error(),
    }
}

/// Parses `NAME=VALUE` options. A value is TOML; other text is a string.
pub fn options(plugin: &str, typed: &[String]) -> CliResult<Vec<NamedValue>> {
    let mut options = gymkhana_config::Options::new();
    for option in typed {
        let (name, value) = option.split_once('=').ok_or_else(|| {
            CliError::user(format!("--option `{option}` has no `=`\nhint: write it as `difficulty=3`"))
        })?;
        let read = format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
        let value = read.unwrap_or_else(|| toml::Value::String(value.to_owned()));
        options.insert(name.to_owned(), value);
    }
    named_values(plugin, &options)
}

/// Fails if an environment or a tool refuses the options that the user gave but not its default ones.
pub async fn check_options(plugin: &Plugin, options: &[NamedValue]) -> CliResult<()> {
    let refusal = async |options: &[NamedValue]| {
        let kinds = &plugin.manifest().kinds;
        let answer = if kinds.contains(&Kind::Environment) {
            plugin.splits(options).await.err()
        } else if kinds.contains(&Kind::Tool) {
            plugin.functions(options).await.err()
        } else {
            None
        };
        answer.filter(|error| error.kind == FailureKind::Refused)
    };
    if options.is_empty() {
        return Ok(());
    }
    match refusal(options).await {
        Some(error) if refusal(&[]).await.is_none() => Err(error).user_context(format!(
            "plugin `{}` refuses an --option\nhint: `host plugin inspect` lists its options with their limits",
            plugin.name()
        )),
        _ => Ok(()),
    }
}

/// Reads `NAME=FILE` assets.
pub fn assets(typed: &[String]) -> CliResult<Assets> {
    let file = |asset: &String| {
        let (name, path) = asset.split_once('=').ok_or_else(|| {
            CliError::user(format!("--asset `{asset}` has no `=`\nhint: write it as `words.txt=data/words.txt`"))
        })?;
        let content = AssetContent::open(Path::new(path))
            .user_context(format!("asset `{name}` cannot be read from `{path}`\nhint: check the path"))?;
        Ok((name.to_owned(), content))
    };
    typed.iter().map(file).collect()
}

/// Reads the setup of a tool.
pub fn setup(path: Option<&Path>) -> CliResult<Option<Vec<u8>>> {
    let read = |path: &Path| {
        std::fs::read(path).user_context(format!("the setup `{}` cannot be read\nhint: check the path", path.display()))
    };
    path.map(read).transpose()
}

/// Settings of a sandbox in which an author tries out a plugin.
pub fn author_config(effort: CompilerEffort) -> SandboxConfig {
    SandboxConfig {
        effort,
        limits: Limits { memory_bytes: MAX_MEMORY as usize, ..Limits::default() },
        ..SandboxConfig::default()
    }
}

/// A sandbox that caches compiled plugins if there is a cache folder.
pub fn sandbox(config: &SandboxConfig, printer: &Printer) -> CliResult<Sandbox> {
    let sandbox = code_cache::sandbox(config.clone(), |text| printer.warn(text))?;
    let printer = printer.clone();
    Ok(sandbox.on_compile(move |plugin, bytes| printer.compiling(plugin, bytes)))
}

/// A runtime for plugin calls.
pub fn runtime() -> CliResult<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()
}
