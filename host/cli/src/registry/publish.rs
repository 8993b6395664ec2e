//! `host keygen`, `publish` and `yank`: commands for publishers.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_registry::{
    KeyHolder, PluginName, Report, Requirement, RequirementName, Rotation, SecretKey, SelfDescription, read_manifest,
    read_plugin_file, write_atomically,
};
use gymkhana_registry_client::{PublishRequest, Secrets};

use super::{RegistrySession, days};
use crate::args::registry::{KeyArgs, KeygenArgs, PublishArgs, YankArgs};
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::{
    BuildMode, PluginFolder, build_folder, describe_component, is_template_description, one_line, report_for_publishing,
};
use crate::printer::Printer;

/// Runs `host keygen`.
pub fn keygen(args: &KeygenArgs, printer: &Printer) -> CliResult<()> {
    if args.show {
        printer.result(SecretKey::read(&args.file).user_error()?.public());
        return Ok(());
    }
    let old = args.replaces.as_deref().map(SecretKey::read).transpose().user_error()?;
    let key = SecretKey::generate().user_error()?;
    key.write(&args.file).user_error()?;
    printer.result(key.public());
    printer.status(format!("secret key written to `{}`; keep a private copy", args.file.display()));
    if let Some((old, namespace)) = old.zip(args.namespace.clone()) {
        let rotation = Rotation::new(KeyHolder::Namespace(namespace), &old, key.public());
        let mut path: OsString = args.file.clone().into();
        path.push(".rotation.json");
        let (path, text) = (PathBuf::from(path), serde_json::to_string(&rotation).internal()?);
        let full = || format!("`{}` cannot be written\nhint: free space", path.display());
        write_atomically(&path, format!("{text}\n").as_bytes()).user_context(full())?;
        printer.status(format!("send `{}` to the registry's maintainer for `host registry rotate`", path.display()));
    }
    Ok(())
}

/// Runs `host publish`.
pub fn publish(args: &PublishArgs, printer: &Printer) -> CliResult<()> {
    let (secrets, session) = (secrets(&args.keys)?, RegistrySession::new(false)?);
    // A build and the suite take seconds to minutes: what can be refused before them is.
    let file = if args.plugin.is_dir() {
        let project = PluginFolder::open(&args.plugin)?;
        session.client().check_credentials(&project.namespace()?, &secrets).user_error()?;
        check_description(&args.plugin.display(), &project.description()?)?;
        build_folder(&args.plugin, None, BuildMode::Whole, printer)?
    } else {
        args.plugin.clone()
    };
    let component = read_plugin_file(&file).user_error()?;
    // The registry refuses other wrong manifests.
    if let Ok(manifest) = read_manifest(&component) {
        check_description(&manifest.name, &manifest.description)?;
    }
    if args.report.is_none() {
        session.wait(printer, session.client().check_before_suite(&component, &secrets))?;
    }
    let report = match &args.report {
        Some(path) => read_report(path)?,
        None => report_for_publishing(&file, printer)?,
    };
    let description = description(&component, printer);
    let publishing = PublishRequest { component: &component, report: Some(report), description };
    if args.dry_run {
        let (registry, row) = session.wait(printer, session.client().check_publish(publishing, &secrets))?;
        printer
            .result(format!("{} {} can be published in registry `{registry}`; nothing changed", row.name, row.version));
        return Ok(());
    }
    let (registry, row) = session.wait(printer, session.client().publish(publishing, &secrets))?;
    printer.result(format!("published {} {} in registry `{registry}`", row.name, row.version));
    Ok(())
}

/// Refuses a plugin that still has the description of its template.
fn check_description(plugin: &dyn Display, description: &str) -> CliResult<()> {
    if !is_template_description(description) {
        return Ok(());
    }
    Err(CliError::user(format!(
        "`{plugin}` has the description of its template: `{description}`\nhint: describe the plugin in its Cargo.toml, \
         pyproject.toml or package.json, and build it again"
    )))
}

/// Answers of the plugin about itself under default options. A plugin that cannot be asked is published without them.
fn description(component: &[u8], printer: &Printer) -> Option<SelfDescription> {
    match describe_component(component.to_vec(), printer) {
        Ok(description) => Some(description),
        Err(error) => {
            printer.warn(format!("warning: the release will not describe options and functions: {}", one_line(&error)));
            None
        }
    }
}

/// Reads a report of `host plugin test --json`.
pub fn read_report(path: &Path) -> CliResult<Report> {
    let wrong = || format!("`{}` is not a report\nhint: write one with `host plugin test --json`", path.display());
    serde_json::from_slice(&fs::read(path).user_context(wrong())?).user_context(wrong())
}

/// Runs `host yank`.
pub fn yank(args: &YankArgs, printer: &Printer) -> CliResult<()> {
    let (name, version) = version_of(&args.version)?;
    let secrets = secrets(&args.keys)?;
    let session = RegistrySession::new(false)?;
    let registry = session.wait(printer, session.client().yank(&name, &version, !args.undo, &secrets))?;
    let done = if args.undo { "is available again" } else { "is yanked: only existing locks use it" };
    printer.result(format!("{name} {version} in registry `{registry}` {done}"));
    Ok(())
}

fn secrets(args: &KeyArgs) -> CliResult<Secrets> {
    let key = args.key.as_deref().map(SecretKey::read).transpose().user_error()?;
    let root = args.root.as_deref().map(SecretKey::read).transpose().user_error()?;
    Ok(Secrets { key, root, lifetime: days(args.days) })
}

/// Parses `NAMESPACE/NAME@VERSION`.
fn version_of(text: &str) -> CliResult<(PluginName, semver::Version)> {
    let wrong =
        || CliError::user(format!("`{text}` is not a version of a plugin\nhint: write one such as `acme/adder@1.2.3`"));
    let (name, version) = text.split_once('@').ok_or_else(wrong)?;
    let wanted: Requirement = name.parse().user_error()?;
    let RequirementName::Full(name) = wanted.name else { return Err(wrong()) };
    Ok((name, version.parse().map_err(|_| wrong())?))
}
