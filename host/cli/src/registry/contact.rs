//! Contact with the configured registries, for `host doctor`.

use std::time::Duration;

use futures::future::join_all;
use gymkhana_waits::{Counterpart, within as bounded};

use super::RegistrySession;
use crate::error::{Classify, CliError, CliResult};

/// Names of the configured registries.
pub fn configured() -> CliResult<Vec<String>> {
    Ok(RegistrySession::new(true)?.client().registry_names().map(str::to_owned).collect())
}

/// Names of the configured registries, with the error of each that cannot be read within a time.
pub fn contact_all(within: Duration) -> CliResult<Vec<(String, CliResult<()>)>> {
    let session = RegistrySession::new(false)?;
    let client = session.client();
    let contacts = client.registry_names().map(|name| async move {
        let answer = match bounded(Counterpart::Registry, within, client.contact(name)).await {
            Ok(answer) => answer.user_error(),
            Err(silent) => {
                let silent = silent.of(format!("`{name}`"));
                Err(CliError::user(format!("{silent}\nhint: check its URL and the network")))
            }
        };
        (name.to_owned(), answer)
    });
    Ok(session.runtime.block_on(join_all(contacts)))
}
