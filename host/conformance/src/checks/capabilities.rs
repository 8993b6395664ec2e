//! Capabilities: the component's imports compared with its manifest.

use std::collections::BTreeSet;

use gymkhana_registry::{Capability, Manifest};

use crate::finding::{Finding, failed, passed};

const ALL: [Capability; 8] = [
    Capability::Log,
    Capability::Random,
    Capability::Clock,
    Capability::Assets,
    Capability::Model,
    Capability::Tools,
    Capability::Http,
    Capability::InnerEnvironment,
];

/// Users see only the manifest. It must request every imported capability, and none that is not imported, because users
/// would grant it without need.
pub(crate) fn check(manifest: &Manifest, imports: &[String]) -> Finding {
    let imported: BTreeSet<Capability> = imports.iter().filter_map(|import| of_import(import)).collect();
    let asked = &manifest.capabilities;
    if let Some(hidden) = imported.iter().find(|capability| !capability.is_free() && !asked.contains(capability)) {
        return failed(
            format!("the component imports `{hidden}` but its manifest does not request it"),
            "add it to the manifest's `capabilities`, or stop using it",
        );
    }
    if let Some(idle) = asked.iter().find(|capability| !capability.is_free() && !imported.contains(capability)) {
        return failed(
            format!("the manifest requests `{idle}`, but the component does not import it"),
            "remove it from the manifest's `capabilities`",
        );
    }
    let wanted: Vec<String> = asked.iter().filter(|wanted| !wanted.is_free()).map(ToString::to_string).collect();
    passed(if wanted.is_empty() {
        "it uses no capability".to_owned()
    } else {
        format!("it uses {}", wanted.join(", "))
    })
}

fn of_import(import: &str) -> Option<Capability> {
    if import.starts_with("gymkhana:wrapper/inner@") {
        return Some(Capability::InnerEnvironment);
    }
    let interface = import.strip_prefix("gymkhana:plugin/")?.split('@').next()?;
    ALL.into_iter().find(|capability| capability.to_string() == interface)
}
