//! Capabilities: what the component imports against what its manifest asks for.

use std::collections::BTreeSet;

use gymkhana_registry::{Capability, Manifest};

use crate::finding::{Finding, failed, passed};

const ALL: [Capability; 7] = [
    Capability::Log,
    Capability::Random,
    Capability::Clock,
    Capability::Assets,
    Capability::Model,
    Capability::Tools,
    Capability::Http,
];

/// Whoever runs the plugin reads the manifest alone: it must ask for all that is imported, and for no more, since users
/// would grant what nothing needs.
pub(crate) fn check(manifest: &Manifest, imports: &[String]) -> Finding {
    let imported: BTreeSet<Capability> = imports.iter().filter_map(|import| of_import(import)).collect();
    let asked = &manifest.capabilities;
    if let Some(hidden) = imported.iter().find(|capability| !capability.is_free() && !asked.contains(capability)) {
        return failed(
            format!("the component imports `{hidden}` and its manifest does not ask for it"),
            "add it to the manifest's `capabilities`, or stop using it",
        );
    }
    if let Some(idle) = asked.iter().find(|capability| !capability.is_free() && !imported.contains(capability)) {
        return failed(
            format!("the manifest asks for `{idle}` and the component never imports it"),
            "take it out of the manifest's `capabilities`",
        );
    }
    let wanted: Vec<String> = asked.iter().filter(|wanted| !wanted.is_free()).map(ToString::to_string).collect();
    passed(if wanted.is_empty() { "it needs none".to_owned() } else { format!("it uses {}", wanted.join(", ")) })
}

fn of_import(import: &str) -> Option<Capability> {
    let interface = import.strip_prefix("gymkhana:plugin/")?.split('@').next()?;
    ALL.into_iter().find(|capability| capability.to_string() == interface)
}
