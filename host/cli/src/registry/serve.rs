//! `host registry …`: what maintainers of registries do.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use gymkhana_registry::{Authority, RegistryFolder, Rotation, SecretKey};
use gymkhana_registry_server::{Limits, Server, Tokens};

use super::args::{InitArgs, ServingCommand, SigningArgs};
use super::project::listed;
use super::{Asker, days, now};
use crate::error::{Blame, CliError, CliResult};
use crate::printer::Printer;

/// The days that a new registry's first state counts.
const FIRST: u64 = 30;

/// Does what was asked for.
pub fn run(command: ServingCommand, printer: &Printer) -> CliResult<()> {
    match command {
        ServingCommand::Init { dir, signing } => init(&dir, &signing, printer),
        ServingCommand::Grant { dir, namespace, key, signing } => {
            let root = SecretKey::read(&signing.root).users()?;
            RegistryFolder::open(&dir).users()?.grant(&namespace, key, authority(&root, signing.days)).users()?;
            printer.result(format!("{key} may publish in namespace `{namespace}`"));
            Ok(())
        }
        ServingCommand::Rotate { dir, rotation, revoke, new_root, signing } => {
            rotate(&dir, rotation.as_deref(), revoke, new_root.as_deref(), &signing, printer)
        }
        ServingCommand::Revoke { dir, namespace, key, signing } => {
            let root = SecretKey::read(&signing.root).users()?;
            RegistryFolder::open(&dir).users()?.revoke(&namespace, &key, authority(&root, signing.days)).users()?;
            printer.result(format!("what {key} signed in namespace `{namespace}` counts no more"));
            Ok(())
        }
        ServingCommand::Sign { dir, signing } => {
            let root = SecretKey::read(&signing.root).users()?;
            RegistryFolder::open(&dir).users()?.renew(authority(&root, signing.days)).users()?;
            printer.result(format!("`{}` counts for {} days more", dir.display(), signing.days));
            Ok(())
        }
        ServingCommand::Token { dir, namespaces, revoke } => {
            let folder = RegistryFolder::open(&dir).users()?;
            let tokens = Tokens::below(folder.path());
            match revoke {
                Some(number) => {
                    tokens.revoke(&number).users()?;
                    printer.result(format!("token {number} counts no more"));
                }
                None if namespaces.is_empty() => {
                    for (number, namespaces) in tokens.list().users()? {
                        printer.result(format!("{number} for {}", listed(namespaces.iter())));
                    }
                }
                None => {
                    printer.result(tokens.add(namespaces.into_iter().collect()).users()?);
                    printer.talk("give it to the publisher; it is shown this once and kept nowhere");
                }
            }
            Ok(())
        }
        ServingCommand::Serve { dir, listen, behind_proxy, signing } => {
            serve(&dir, listen, Limits { behind_proxy, ..Limits::default() }, &signing, printer)
        }
        ServingCommand::Mirror { registry, dir } => mirror(&registry, &dir, printer),
    }
}

fn authority(root: &SecretKey, lifetime: u64) -> Authority<'_> {
    Authority { root: Some(root), lifetime: days(lifetime), now: now() }
}

fn init(dir: &Path, signing: &InitArgs, printer: &Printer) -> CliResult<()> {
    let root = signing.root.as_deref().map(SecretKey::read).transpose().users()?;
    let authority = Authority { root: root.as_ref(), lifetime: days(FIRST), now: now() };
    RegistryFolder::create(dir, authority).users()?;
    match &root {
        Some(root) => printer.result(format!("`{}` is a registry with the root key {}", dir.display(), root.public())),
        None => printer.result(format!("`{}` is an unsigned registry", dir.display())),
    }
    Ok(())
}

fn rotate(
    dir: &Path,
    rotation: Option<&Path>,
    revoke: bool,
    new_root: Option<&Path>,
    signing: &SigningArgs,
    printer: &Printer,
) -> CliResult<()> {
    let folder = RegistryFolder::open(dir).users()?;
    let root = SecretKey::read(&signing.root).users()?;
    if let Some(new) = new_root {
        let new = SecretKey::read(new).users()?;
        folder.replace_root(&new, authority(&root, signing.days)).users()?;
        printer.result(format!("{} is the root key now; clients that pinned the old one follow it", new.public()));
    }
    if let Some(path) = rotation {
        let told = || format!("`{}` is no rotation that `host keygen --replaces` wrote", path.display());
        let rotation: Rotation = serde_json::from_slice(&fs::read(path).users_as(told())?).users_as(told())?;
        let (of, to) = (rotation.of.clone(), rotation.to);
        folder.rotate(rotation, revoke, authority(&root, signing.days)).users()?;
        printer.result(format!("{to} is the key of {of} now"));
    }
    Ok(())
}

fn serve(dir: &Path, listen: SocketAddr, limits: Limits, signing: &SigningArgs, printer: &Printer) -> CliResult<()> {
    let root = SecretKey::read(&signing.root).users()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().ours()?;
    runtime.block_on(async {
        let log = printer.clone();
        let log = Box::new(move |line: &gymkhana_registry_server::Line| {
            // A line is plain data, which can always be written.
            log.talk(serde_json::to_string(line).unwrap_or_default());
        });
        let server = Server::start(dir, root, days(signing.days), listen, limits, log).await.users()?;
        printer.talk(format!("`{}` is served at http://{}/", dir.display(), server.address()));
        tokio::select! {
            () = server.serve() => {}
            stopped = tokio::signal::ctrl_c() => stopped.ours()?,
        }
        Ok(())
    })
}

/// Copies a registry.
pub fn mirror(registry: &str, dir: &Path, printer: &Printer) -> CliResult<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(CliError::mistake(format!("`{}` is no folder; name one for the mirror", dir.display())));
    }
    let asker = Asker::new(false)?;
    let mirrored = asker.wait(printer, asker.client.mirror(registry, dir))?;
    let left_out = match mirrored.left_out {
        0 => String::new(),
        some => format!("; {some} are left out, whose keys were revoked"),
    };
    printer.result(format!(
        "`{}` holds {} plugins in {} versions, {} of them fetched now, as of checkpoint {}{left_out}",
        dir.display(),
        mirrored.plugins,
        mirrored.versions,
        mirrored.fetched,
        mirrored.sequence
    ));
    Ok(())
}
