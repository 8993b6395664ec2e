//! The two kinds of registries behind a configured name.

use std::path::Path;

use gymkhana_registry::RegistryFolder;

use crate::config::{RegistrySource, Trust};
use crate::error::RegistryClientError;
use crate::oci::{OciCredentials, OciRegistry};
use crate::remote::{Location, Remote};
use crate::transport::{HttpTransport, TransferLimits};
use crate::trust::SourceId;

/// A configured registry.
#[derive(Debug)]
pub(crate) enum Backend {
    /// Registry with a checkpoint.
    Remote(Box<Remote>),
    /// OCI registry.
    Oci(Box<OciRegistry>),
}

impl Backend {
    /// Opens a configured registry without contacting it.
    pub fn open(
        name: &str,
        source: &RegistrySource,
        seen: &Path,
        limits: TransferLimits,
        variable: fn(&str) -> Option<String>,
    ) -> Result<Self, RegistryClientError> {
        let transport = |also: &Vec<_>| {
            HttpTransport::new(also.clone(), limits).map_err(|source| RegistryClientError::Fetch {
                registry: name.to_owned(),
                what: "files".to_owned(),
                source,
            })
        };
        let name = name.to_owned();
        Ok(match source {
            RegistrySource::Folder { path, trust } => {
                let location = Location::Folder(RegistryFolder::at(path));
                Self::Remote(Box::new(Remote::new(name, location, *trust, seen)))
            }
            RegistrySource::Web { url, trust, also, token } => {
                let location =
                    Location::Web { http: Box::new(transport(also)?), url: url.clone(), token: token.clone() };
                Self::Remote(Box::new(Remote::new(name, location, *trust, seen)))
            }
            RegistrySource::Oci { url, keys, also, credentials } => {
                let http = transport(also)?;
                // A password goes only to origins of the user's own configuration; `also` may come from a project.
                let token_origins = credentials.as_ref().map_or(also, |credentials| &credentials.also).clone();
                let password = credentials.as_ref().map(|credentials| credentials.variable.clone());
                let credentials = OciCredentials::new(token_origins, password, variable);
                Self::Oci(Box::new(OciRegistry::new(name, http, url.clone(), keys.clone(), credentials)))
            }
        })
    }

    /// Identifier of the source for provenance records.
    pub fn id(&self) -> SourceId {
        match self {
            Self::Remote(remote) => remote.id(),
            Self::Oci(oci) => oci.id(),
        }
    }

    /// Returns true if the user configured the registry as unsigned.
    pub fn is_unsigned(&self) -> bool {
        match self {
            Self::Remote(remote) => remote.trust == Trust::Unsigned,
            Self::Oci(oci) => oci.keys().is_none(),
        }
    }
}
