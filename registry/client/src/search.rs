//! Search in the catalogues of all registries.

use gymkhana_registry::CatalogueRow;

use crate::backend::Backend;
use crate::client::RegistryClient;
use crate::error::RegistryClientError;
use crate::remote::Location;

/// A plugin found by a search.
#[derive(Debug, Clone)]
pub struct SearchHit {
    /// Registry name.
    pub registry: String,
    /// Catalogue entry.
    pub row: CatalogueRow,
    /// Whether its component is on this machine: the registry is a folder.
    pub is_local: bool,
}

impl RegistryClient {
    /// Lists the plugins whose name, kinds and description contain all words, sorted by name. OCI registries cannot be
    /// searched and add a notice instead.
    ///
    /// # Errors
    /// If no registry is configured, or one cannot be read.
    pub async fn search(&self, words: &[String]) -> Result<Vec<SearchHit>, RegistryClientError> {
        if self.registries.is_empty() {
            return Err(RegistryClientError::NoRegistries);
        }
        let mut hits = Vec::new();
        for (registry, backend) in &self.registries {
            match backend {
                Backend::Oci(_) => {
                    self.add_notice(format!("registry `{registry}` is an OCI registry, which cannot be searched"));
                }
                Backend::Remote(remote) => {
                    let rows = remote.catalogue(self.access).await?.into_iter();
                    let rows = rows.filter(|row| self.is_served_by(&row.name, registry) && row.matches_all(words));
                    let is_local = matches!(remote.location, Location::Folder(_));
                    hits.extend(rows.map(|row| SearchHit { registry: registry.clone(), row, is_local }));
                }
            }
        }
        hits.sort_by(|one, other| one.row.name.cmp(&other.row.name));
        Ok(hits)
    }
}
