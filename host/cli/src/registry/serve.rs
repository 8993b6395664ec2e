//! `host registry …`: commands for maintainers of registries.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use gymkhana_registry::{Authority, RegistryFolder, Rotation, SecretKey, SignedText};
use gymkhana_registry_server::{PublishTokens, RegistryServer, ServerLimits};

use super::listed;
use super::{RegistrySession, days, info, now};
use crate::args::plugin::GivenInputs;
use crate::args::registry::{InitArgs, ServingCommand, SigningArgs};
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::units::counted;

/// Validity of a new registry's first state, in days.
const FIRST: u64 = 30;

/// Runs a subcommand.
pub fn run(command: ServingCommand, printer: &Printer) -> CliResult<()> {
    match command {
        ServingCommand::Init { dir, signing } => init(&dir, &signing, printer),
        ServingCommand::Grant { dir, namespace, key, signing } => {
            let root = SecretKey::read(&signing.root).user_error()?;
            RegistryFolder::open(&dir)
                .user_error()?
                .grant(&namespace, key, authority(&root, signing.days))
                .user_error()?;
            printer.result(format!("{key} may publish in namespace `{namespace}`"));
            Ok(())
        }
        ServingCommand::Rotate { dir, rotation, revoke, new_root, signing } => {
            rotate(&dir, rotation.as_deref(), revoke, new_root.as_deref(), &signing, printer)
        }
        ServingCommand::Revoke { dir, namespace, key, signing } => {
            let root = SecretKey::read(&signing.root).user_error()?;
            RegistryFolder::open(&dir)
                .user_error()?
                .revoke(&namespace, &key, authority(&root, signing.days))
                .user_error()?;
            printer.result(format!("releases signed by {key} in namespace `{namespace}` are now ignored"));
            Ok(())
        }
        ServingCommand::Sign { dir, signing } => {
            let root = SecretKey::read(&signing.root).user_error()?;
            RegistryFolder::open(&dir).user_error()?.renew(authority(&root, signing.days)).user_error()?;
            printer.result(format!("`{}` is valid for {} days", dir.display(), signing.days));
            Ok(())
        }
        ServingCommand::Token { dir, namespaces, revoke } => {
            let folder = RegistryFolder::open(&dir).user_error()?;
            let tokens = PublishTokens::of_registry(folder.path());
            match revoke {
                Some(number) => {
                    tokens.revoke(&number).user_error()?;
                    printer.result(format!("token {number} is revoked"));
                }
                None if namespaces.is_empty() => {
                    for (number, namespaces) in tokens.list().user_error()? {
                        printer.result(format!("{number} for {}", listed(namespaces.iter())));
                    }
                }
                None => {
                    printer.result(tokens.add(namespaces.into_iter().collect()).user_error()?);
                    printer.status("send it to the publisher; it is shown once and not stored");
                }
            }
            Ok(())
        }
        ServingCommand::Serve { dir, listen, behind_proxy, signing } => {
            serve(&dir, listen, ServerLimits { behind_proxy, ..ServerLimits::default() }, &signing, printer)
        }
        ServingCommand::Info(args) => info(&args, &GivenInputs::default(), printer),
        ServingCommand::Mirror { registry, dir } => mirror(&registry, &dir, printer),
    }
}

fn authority(root: &SecretKey, lifetime: u64) -> Authority<'_> {
    Authority { root: Some(root), lifetime: days(lifetime), now: now() }
}

fn init(dir: &Path, signing: &InitArgs, printer: &Printer) -> CliResult<()> {
    let root = signing.root.as_deref().map(SecretKey::read).transpose().user_error()?;
    let authority = Authority { root: root.as_ref(), lifetime: days(FIRST), now: now() };
    RegistryFolder::create(dir, authority).user_error()?;
    match &root {
        Some(root) => printer.result(format!("`{}` is a registry with the root key {}", dir.display(), root.public())),
        None => printer.result(format!("`{}` is an unsigned registry", dir.display())),
    }
    printer.status("to use it, add these lines to gymkhana-registries.toml:");
    printer.result(stanza(dir, root.as_ref()));
    Ok(())
}

/// Lines that name a folder registry in gymkhana-registries.toml.
fn stanza(dir: &Path, root: Option<&SecretKey>) -> String {
    let path = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let path = toml::Value::String(path.display().to_string());
    let trust = root.map_or("unsigned = true".to_owned(), |root| format!("root = \"{}\"", root.public()));
    format!("[registries.mine]\nfolder = {path}\n{trust}\n\n[namespaces]\nNAMESPACE = \"mine\"")
}

fn rotate(
    dir: &Path,
    rotation: Option<&Path>,
    revoke: bool,
    new_root: Option<&Path>,
    signing: &SigningArgs,
    printer: &Printer,
) -> CliResult<()> {
    let folder = RegistryFolder::open(dir).user_error()?;
    let root = SecretKey::read(&signing.root).user_error()?;
    if let Some(new) = new_root {
        let new = SecretKey::read(new).user_error()?;
        folder.replace_root(&new, authority(&root, signing.days)).user_error()?;
        printer.result(format!("{} is the new root key; clients that pinned the old one follow it", new.public()));
    }
    if let Some(path) = rotation {
        let wrong = || format!("`{}` is not a rotation\nhint: write one with `host keygen --replaces`", path.display());
        let rotation: Rotation = serde_json::from_slice(&fs::read(path).user_context(wrong())?).user_context(wrong())?;
        let (of, to) = (rotation.of.clone(), rotation.to);
        folder.rotate(rotation, revoke, authority(&root, signing.days)).user_error()?;
        printer.result(format!("{to} is the new key of {of}"));
    }
    Ok(())
}

fn serve(
    dir: &Path,
    listen: SocketAddr,
    limits: ServerLimits,
    signing: &SigningArgs,
    printer: &Printer,
) -> CliResult<()> {
    let root = SecretKey::read(&signing.root).user_error()?;
    check_signed(dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    runtime.block_on(async {
        let log = printer.clone();
        let log = Box::new(move |line: &gymkhana_registry_server::RequestLogEntry| {
            // A line is plain data, so serialization cannot fail.
            log.json_status(&serde_json::to_string(line).unwrap_or_default());
        });
        let server = RegistryServer::start(dir, root, days(signing.days), listen, limits, log).await.user_error()?;
        printer.status(format!("serving `{}` at http://{}/", dir.display(), server.address()));
        tokio::select! {
            () = server.serve() => {}
            stopped = tokio::signal::ctrl_c() => stopped.internal()?,
        }
        Ok(())
    })
}

/// Refuses an unsigned registry: clients of a server verify signatures.
fn check_signed(dir: &Path) -> CliResult<()> {
    let text = RegistryFolder::open(dir).user_error()?.checkpoint_text().user_error()?;
    if !SignedText::parse(&text).is_ok_and(|signed| signed.signers().next().is_none()) {
        return Ok(());
    }
    let dir = dir.display();
    Err(CliError::user(format!(
        "registry `{dir}` is unsigned, but a served registry must be signed\nhint: create a signed one with `host \
         registry init NEW --root KEY` and publish into it"
    )))
}

/// Runs `host registry mirror`.
pub fn mirror(registry: &str, dir: &Path, printer: &Printer) -> CliResult<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(CliError::user(format!("`{}` is not a folder\nhint: name a folder for the mirror", dir.display())));
    }
    let session = RegistrySession::new(false)?;
    let mirrored = session.wait(printer, session.client().mirror(registry, dir))?;
    let left_out = match mirrored.skipped {
        0 => String::new(),
        some => format!("; {some} with revoked keys were skipped"),
    };
    printer.result(format!(
        "`{}` holds {} in {}, {} downloaded now, as of checkpoint {}{left_out}",
        dir.display(),
        counted(mirrored.plugins, "plugin"),
        counted(mirrored.versions, "version"),
        mirrored.fetched,
        mirrored.sequence
    ));
    Ok(())
}
