//! Which environment a path means: the one of its name, or the first one; without environments, the tools.

use std::sync::Arc;

use gymkhana_orchestration::TOOLS_ONLY;

use crate::catalog::{Catalog, ServedEnvironment};
use crate::error::ServeError;
use crate::session::SessionTarget;

/// The environment of a name, or the default one.
///
/// # Errors
/// If there is none.
pub(super) fn environment(catalog: &Catalog, name: Option<&str>) -> Result<Arc<ServedEnvironment>, ServeError> {
    match (name, catalog.environments().first()) {
        (Some(TOOLS_ONLY), _) | (None, None) => catalog.tools_only().cloned(),
        (None, Some(first)) => Ok(Arc::clone(first)),
        (Some(name), _) => catalog.environment(Some(name)).cloned(),
    }
}

/// The names of all environments, the default one first.
pub(super) fn names(catalog: &Catalog) -> Vec<String> {
    let environments = catalog.environments().iter().map(|served| served.name().to_owned());
    let tools = catalog.tools_only().ok().map(|served| served.name().to_owned());
    environments.chain(tools).collect()
}

/// The session that plays an environment as its configuration sets it.
pub(super) fn opening(served: &ServedEnvironment) -> SessionTarget {
    if served.is_tools_only() {
        SessionTarget::Tools { seed: None }
    } else {
        SessionTarget::Environment { name: Some(served.name().to_owned()), options: vec![] }
    }
}
