//! `host keygen`, `publish` and `yank`: what publishers do.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_registry::{Holder, Report, Rotation, SecretKey, read_plugin_file, write_atomically};
use gymkhana_registry_client::{Publishing, Secrets};

use super::args::{KeyArgs, KeygenArgs, PublishArgs, YankArgs};
use super::use_plugins::version_of;
use super::{Asker, days};
use crate::error::{Classify, CliResult};
use crate::plugin::report_for_publishing;
use crate::printer::Printer;

/// Makes a key.
pub fn keygen(args: &KeygenArgs, printer: &Printer) -> CliResult<()> {
    let old = args.replaces.as_deref().map(SecretKey::read).transpose().user_error()?;
    let key = SecretKey::generate().user_error()?;
    key.write(&args.file).user_error()?;
    printer.result(key.public());
    printer
        .status(format!("the secret key is in `{}`; keep a copy where nobody else can read it", args.file.display()));
    if let Some((old, namespace)) = old.zip(args.namespace.clone()) {
        let rotation = Rotation::new(Holder::Namespace(namespace), &old, key.public());
        let mut path: OsString = args.file.clone().into();
        path.push(".rotation.json");
        let (path, text) = (PathBuf::from(path), serde_json::to_string(&rotation).internal()?);
        let told = || format!("`{}` cannot be written; free space there", path.display());
        write_atomically(&path, format!("{text}\n").as_bytes()).user_context(told())?;
        printer.status(format!("give `{}` to the registry's maintainer, for `host registry rotate`", path.display()));
    }
    Ok(())
}

/// Publishes a plugin.
pub fn publish(args: &PublishArgs, printer: &Printer) -> CliResult<()> {
    let component = read_plugin_file(&args.file).user_error()?;
    // What can be missing here is missed before the suite is run, which takes seconds.
    let secrets = secrets(&args.keys)?;
    let asker = Asker::new(false)?;
    asker.client.is_equipped(&component, &secrets).user_error()?;
    let report = match &args.report {
        Some(path) => read_report(path)?,
        None => report_for_publishing(&args.file, printer)?,
    };
    let publishing = Publishing { component: &component, report: Some(report) };
    let (registry, row) = asker.wait(printer, asker.client.publish(publishing, &secrets))?;
    printer.result(format!("{} {} is published in registry `{registry}`", row.name, row.version));
    Ok(())
}

fn read_report(path: &Path) -> CliResult<Report> {
    let told = || format!("`{}` is no report that `host plugin test --json` wrote; make one with it", path.display());
    serde_json::from_slice(&fs::read(path).user_context(told())?).user_context(told())
}

/// Withdraws a version, or brings it back.
pub fn yank(args: &YankArgs, printer: &Printer) -> CliResult<()> {
    let (name, version) = version_of(&args.version)?;
    let secrets = secrets(&args.keys)?;
    let asker = Asker::new(false)?;
    let registry = asker.wait(printer, asker.client.yank(&name, &version, !args.undo, &secrets))?;
    let done = if args.undo { "is back" } else { "is yanked: locks that have it keep it, and nothing else takes it" };
    printer.result(format!("{name} {version} in registry `{registry}` {done}"));
    Ok(())
}

fn secrets(args: &KeyArgs) -> CliResult<Secrets> {
    let key = args.key.as_deref().map(SecretKey::read).transpose().user_error()?;
    let root = args.root.as_deref().map(SecretKey::read).transpose().user_error()?;
    Ok(Secrets { key, root, lifetime: days(args.days) })
}
