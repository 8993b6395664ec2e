//! The one place that decides which host interfaces a plugin may import.
//!
//! A capability needs three things: the plugin's manifest asks for it, the run grants it, and this host offers it.
//! Only `log`, `random` and `clock` come without asking.

use std::collections::BTreeSet;

use gymkhana_registry::Capability;

/// What a run grants to a plugin, beyond the capabilities that every plugin has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants(pub BTreeSet<Capability>);

/// The capabilities that this version of the host can give, beyond those that every plugin has.
const OFFERED: [Capability; 0] = [];

/// Interfaces of WASI that are linked in their virtual form: language runtimes need them, and they lead nowhere.
const VIRTUAL_WASI: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// Why a plugin is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It asks for what this host cannot give.
    #[error("it asks for the capability `{0}`, which this version of the host does not offer; use a newer host")]
    NotOffered(Capability),
    /// It asks for what the run does not grant.
    #[error("it asks for the capability `{0}`, which the run does not grant; add `{0}` to this plugin's grants")]
    NotGranted(Capability),
    /// It imports what its manifest does not ask for.
    #[error(
        "it imports `{0}` although its manifest does not ask for that capability; add \"{0}\" to `capabilities` in \
         `[package.metadata.gymkhana]` of its Cargo.toml and build it again"
    )]
    NotRequested(Capability),
    /// It imports an interface that no capability stands for.
    #[error("it imports `{0}`, which no plugin can have; build it for `wasm32-wasip2` with gymkhana-sdk alone")]
    UnknownImport(String),
}

/// Decides whether a plugin with these requests and imports may run with these grants.
pub(crate) fn decide(requested: &BTreeSet<Capability>, imports: &[String], grants: &Grants) -> Result<(), Refusal> {
    decide_among(&OFFERED, requested, imports, grants)
}

fn decide_among(
    offered: &[Capability],
    requested: &BTreeSet<Capability>,
    imports: &[String],
    grants: &Grants,
) -> Result<(), Refusal> {
    for capability in requested.iter().filter(|capability| !capability.is_free()) {
        if !offered.contains(capability) {
            return Err(Refusal::NotOffered(*capability));
        }
        if !grants.0.contains(capability) {
            return Err(Refusal::NotGranted(*capability));
        }
    }
    for import in imports {
        match meaning(import) {
            Meaning::Harmless => {}
            Meaning::Capability(capability) if capability.is_free() || requested.contains(&capability) => {}
            Meaning::Capability(capability) => return Err(Refusal::NotRequested(capability)),
            Meaning::Unknown => return Err(Refusal::UnknownImport(import.clone())),
        }
    }
    Ok(())
}

enum Meaning {
    Harmless,
    Capability(Capability),
    Unknown,
}

fn meaning(import: &str) -> Meaning {
    if VIRTUAL_WASI.iter().any(|interface| import.starts_with(interface)) {
        return Meaning::Harmless;
    }
    let interface = import.strip_prefix("gymkhana:plugin/").and_then(|rest| rest.split('@').next());
    match interface {
        Some("types") => Meaning::Harmless,
        Some("log") => Meaning::Capability(Capability::Log),
        Some("random") => Meaning::Capability(Capability::Random),
        Some("clock") => Meaning::Capability(Capability::Clock),
        Some("assets") => Meaning::Capability(Capability::Assets),
        Some("model") => Meaning::Capability(Capability::Model),
        Some("tools") => Meaning::Capability(Capability::Tools),
        Some("http") => Meaning::Capability(Capability::Http),
        _ => Meaning::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(capabilities: &[Capability]) -> BTreeSet<Capability> {
        capabilities.iter().copied().collect()
    }

    fn imports(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("gymkhana:plugin/{name}@0.1.0")).collect()
    }

    #[test]
    fn free_capabilities_and_virtual_wasi_need_nothing() {
        let mut names = imports(&["types", "log", "random", "clock"]);
        names.push("wasi:sockets/tcp@0.2.6".to_owned());
        assert_eq!(decide(&set(&[]), &names, &Grants::default()), Ok(()));
    }

    #[test]
    fn a_capability_needs_request_grant_and_offer() {
        use Capability::{Assets, Http};
        let names = imports(&["assets"]);
        let granted = Grants(set(&[Assets]));
        assert_eq!(decide_among(&[Assets], &set(&[Assets]), &names, &granted), Ok(()));
        assert_eq!(decide_among(&[Assets], &set(&[]), &names, &granted), Err(Refusal::NotRequested(Assets)));
        assert_eq!(
            decide_among(&[Assets], &set(&[Assets]), &names, &Grants::default()),
            Err(Refusal::NotGranted(Assets))
        );
        assert_eq!(decide_among(&[Http], &set(&[Assets]), &names, &granted), Err(Refusal::NotOffered(Assets)));
        assert_eq!(decide(&set(&[Assets]), &names, &granted), Err(Refusal::NotOffered(Assets)));
    }

    #[test]
    fn an_interface_of_nobody_is_refused_by_name() {
        for name in ["wasi:http/outgoing-handler@0.2.0", "gymkhana:plugin/shell@0.1.0", "env"] {
            let refused = decide(&set(&[]), &[name.to_owned()], &Grants::default());
            assert_eq!(refused, Err(Refusal::UnknownImport(name.to_owned())));
        }
    }
}
