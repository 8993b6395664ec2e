//! `host serve export`: an environment as a container for OpenEnv.
//!
//! The container is described by what is known of the plugin: its manifest, its description, and the report of the
//! conformance suite, without whose success nothing is written.

use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use gymkhana_registry::{Capability, PluginFile, Report};
use gymkhana_serve::catalog::{Catalog, ServedEnvironment};
use gymkhana_serve::config::ServeFile;
use serde_json::{Map, Value as Json, json};

use crate::args::ServeExportArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::report_of;
use crate::plugins::WantedPlugins;
use crate::printer::Printer;
use crate::registry;

/// Port of the container, as OpenEnv's own have it.
const PORT: u16 = 8000;
/// Memory of the server itself, in MiB.
const SERVER_MIB: u64 = 256;
/// Disk of the server and its code cache, in MiB.
const DISK_MIB: u64 = 1024;
/// Time of an episode in seconds; the longest that OpenEnv's policy lets a container declare.
const EPISODE_SECONDS: f64 = 3600.0;
/// Distance between the largest reward and that of a policy which does nothing; the smallest that the policy allows.
const FLOOR_MARGIN: f64 = 0.1;

/// Runs the command.
pub fn export(args: &ServeExportArgs, printer: &Printer) -> CliResult<()> {
    let text = args.config.as_deref().map(read_config).transpose()?.unwrap_or_default();
    let mut config = ServeFile::parse(&text, "serve.toml")?;
    check(args, &config)?;
    let folder = args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let (files, _) = WantedPlugins::of_run(&args.plugins, &config.rules, folder, args.fetch).gather(printer)?;
    config.rules.forget_sources();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    let reporter = printer.reporter();
    let catalog = runtime.block_on(Catalog::load(&config, Path::new("."), files, &reporter))?;
    let served = environment(&catalog)?;
    let report = report(args, served, catalog.files(), printer)?;
    let functions = runtime.block_on(served.described().first_functions()).user_error()?;
    let tools: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    let container = Container { served, report: &report, files: catalog.files(), tools };
    container.write(&args.out, &text)?;
    printer.result(format!(
        "{} {} is in `{}`\nhint: build it with `docker build {}`",
        served.facts().name,
        served.facts().version,
        args.out.display(),
        args.out.display()
    ));
    Ok(())
}

fn read_config(path: &Path) -> CliResult<String> {
    let cannot = || format!("`{}` cannot be read\nhint: name a file with --config", path.display());
    fs::read_to_string(path).user_context(cannot())
}

/// Refuses what the container would lack.
fn check(args: &ServeExportArgs, config: &ServeFile) -> CliResult<()> {
    if args.out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let message = format!("the folder `{}` is not empty\nhint: name a new one with --out", args.out.display());
        return Err(CliError::user(message));
    }
    match config.rules.plugins.iter().find(|(_, section)| !section.assets.is_empty()) {
        Some((name, _)) => Err(CliError::user(format!(
            "plugin `{name}` cannot be exported: its assets are files of this machine\nhint: serve it here"
        ))),
        None => Ok(()),
    }
}

fn environment(catalog: &Catalog) -> CliResult<&Arc<ServedEnvironment>> {
    match catalog.environments() {
        [only] => Ok(only),
        environments => Err(CliError::user(format!(
            "a container has one environment, not {}\nhint: name one environment, and its tools and rewards",
            environments.len()
        ))),
    }
}

/// The report of the environment, which must be of this component and without a failure.
fn report(
    args: &ServeExportArgs,
    served: &ServedEnvironment,
    files: &[PluginFile],
    printer: &Printer,
) -> CliResult<Report> {
    let Some(path) = &args.report else {
        let file = files.iter().find(|file| file.name() == served.name());
        let file = file.ok_or_else(|| CliError::user(format!("plugin `{}` has no file", served.name())))?;
        return report_of(&file.origin, &file.bytes, printer);
    };
    let report = registry::read_report(path)?;
    let wrong = |why: String| {
        let message = format!("the report `{}` cannot be used: {why}", path.display());
        Err(CliError::user(message).with_hint("write one with `host plugin test --json`"))
    };
    if report.digest.to_string() != served.facts().digest {
        return wrong(format!("it is of another build of `{}`", report.name));
    }
    if let Some((check, _)) = report.failures().next() {
        return wrong(format!("the check `{check}` fails"));
    }
    Ok(report)
}

/// What is written.
struct Container<'a> {
    served: &'a ServedEnvironment,
    report: &'a Report,
    files: &'a [PluginFile],
    tools: Vec<&'a str>,
}

impl Container<'_> {
    fn write(&self, folder: &Path, config: &str) -> CliResult<()> {
        let plugins = folder.join("plugins");
        let cannot =
            || format!("the folder `{}` cannot be written\nhint: name one in a writable folder", folder.display());
        fs::create_dir_all(&plugins).user_context(cannot())?;
        fs::create_dir_all(folder.join("validation")).user_context(cannot())?;
        for file in self.files {
            fs::write(plugins.join(file_name(file)), &file.bytes).user_context(cannot())?;
        }
        let report = serde_json::to_string_pretty(self.report).internal()?;
        let texts = [
            ("openenv.yaml", self.manifest()?),
            ("Dockerfile", self.dockerfile()),
            ("serve.toml", open_to_all(config)?),
            ("validation/runtime.json", format!("{:#}\n", plan())),
            ("validation/conformance.json", format!("{report}\n")),
        ];
        for (name, text) in texts {
            fs::write(folder.join(name), text).user_context(cannot())?;
        }
        let program = env::current_exe().internal()?;
        fs::copy(program, folder.join("host")).user_context(cannot())?;
        Ok(())
    }

    /// The text of `openenv.yaml`.
    fn manifest(&self) -> CliResult<String> {
        let (facts, info) = (self.served.facts(), self.served.described().info());
        let range = info.rewards;
        if !(range.low.is_finite() && range.high.is_finite() && range.low < range.high) {
            return Err(CliError::user(format!(
                "environment `{}` cannot be exported: OpenEnv needs a finite range of rewards, and it declares {} to {}",
                facts.name, range.low, range.high
            ))
            .with_hint("declare the range in the description of the plugin"));
        }
        let finite =
            self.served.described().splits().iter().filter_map(|split| Some((split.name.clone(), json!(split.tasks?))));
        let tasks: Map<String, Json> = finite.collect();
        let kind = if self.tools.is_empty() { "text" } else { "tools" };
        let memory = self.report.most_memory >> 20;
        let manifest = json!({
            "spec_version": 1,
            "name": self.served.name(),
            "version": facts.version,
            "type": "space",
            "runtime": "docker",
            "port": PORT,
            "validation": {
                "reward": { "range": [range.low, range.high], "oracle_tolerance": 0.0, "floor_margin": FLOOR_MARGIN },
                "resources": {
                    "cpu": 1.0,
                    "memory_mb": SERVER_MIB + memory * self.files.len() as u64,
                    "disk_mb": DISK_MIB,
                    "episode_timeout_s": EPISODE_SECONDS,
                },
                "capabilities": {
                    "verifier": { "kind": "reward_channel" },
                    "task_api": true,
                    "declared_tools": self.tools,
                    "declared_task_count": tasks,
                },
                "network": { "mode": if self.is_offline() { "no-network" } else { "public" } },
                "types": { "tags": [kind] },
                "execution": {
                    "kind": "openenv_ws",
                    "probe_path": "validation/runtime.json",
                    "dockerfile": "Dockerfile",
                    "context": ".",
                    "agent_boundary": "api",
                },
            },
        });
        Ok(format!(
            "# Written by `host serve export` from the manifest of {} {}.\n{}",
            facts.name,
            facts.version,
            yaml(&manifest, 0)
        ))
    }

    /// Whether no plugin asks for a model or the web.
    fn is_offline(&self) -> bool {
        let asks = |file: &PluginFile| {
            [Capability::Model, Capability::Http].iter().any(|capability| file.entry.capabilities.contains(capability))
        };
        !self.files.iter().any(asks)
    }

    fn dockerfile(&self) -> String {
        let facts = self.served.facts();
        let plugins = self.files.iter().map(|file| format!("plugins/{}", file_name(file)));
        let address = format!("0.0.0.0:{PORT}");
        let options = ["--config", "serve.toml", "--listen", &address, "--no-records"].map(str::to_owned);
        let command: Vec<String> =
            ["host", "serve"].map(str::to_owned).into_iter().chain(plugins).chain(options).collect();
        format!(
            "# Serves {name} {version} to clients of OpenEnv, ORS and MCP.\n\
             FROM debian:trixie-slim\n\
             LABEL org.opencontainers.image.title={title} org.opencontainers.image.version={version:?}\n\
             RUN useradd --create-home --uid 1000 serve\n\
             WORKDIR /home/serve\n\
             COPY host /usr/local/bin/host\n\
             COPY plugins plugins\n\
             COPY serve.toml serve.toml\n\
             USER 1000\n\
             EXPOSE {PORT}\n\
             HEALTHCHECK --interval=30s --timeout=3s --start-period=10s CMD [\"bash\", \"-c\", {health}]\n\
             CMD {command}\n",
            name = facts.name,
            version = facts.version,
            title = json!(facts.name),
            health = json!(HEALTH),
            command = json!(command),
        )
    }
}

/// Asks the server whether it is healthy, without a program that the image lacks.
const HEALTH: &str = "exec 3<>/dev/tcp/127.0.0.1/8000 && printf 'GET /health HTTP/1.0\\r\\nhost: localhost\\r\\n\\r\\n' >&3 \
                      && grep -q healthy <&3";

fn file_name(file: &PluginFile) -> String {
    format!("{}.wasm", file.name())
}

/// The configuration, with a listener that the container's network protects.
fn open_to_all(config: &str) -> CliResult<String> {
    let mut document: toml_edit::DocumentMut = config.parse().internal()?;
    document.entry("listen").or_insert(toml_edit::table())["open_to_all"] = toml_edit::value(true);
    Ok(document.to_string())
}

/// An episode that OpenEnv's validator plays: any environment takes any text.
fn plan() -> Json {
    json!({
        "plan_schema_version": "1",
        "reset": { "episode_id": "probe", "seed": 0 },
        "actions": [{ "text": "probe" }, { "text": "probe" }],
    })
}

/// A value as YAML: objects as blocks, all else as JSON, which YAML includes.
fn yaml(value: &Json, depth: usize) -> String {
    let Json::Object(fields) = value else { return format!(" {value}\n") };
    if fields.is_empty() {
        return " {}\n".to_owned();
    }
    let lines = fields.iter().map(|(name, field)| format!("{}{name}:{}", "  ".repeat(depth), yaml(field, depth + 1)));
    format!("{}{}", if depth == 0 { "" } else { "\n" }, lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_blocks_and_all_else_is_json() {
        let value = json!({ "a": { "b": [1, "x"], "c": {} }, "d": "e: f" });
        assert_eq!(yaml(&value, 0), "a:\n  b: [1,\"x\"]\n  c: {}\nd: \"e: f\"\n");
    }

    #[test]
    fn a_configuration_keeps_its_sections() -> CliResult<()> {
        let text = open_to_all("[listen]\nbody_kib = 64\n[sessions]\nmax = 3\n")?;
        let config = ServeFile::parse(&text, "serve.toml")?;
        assert!(config.listen.open_to_all);
        assert_eq!((config.listen.body_kib, config.sessions.max), (64, 3));
        assert!(ServeFile::parse(&open_to_all("")?, "serve.toml")?.listen.open_to_all);
        Ok(())
    }
}
