//! Access control: which host interfaces a plugin may import.
//!
//! A capability must be declared in the plugin's manifest and granted by the run. Only `log`, `random` and `clock` are
//! always available.

use std::collections::BTreeSet;

use gymkhana_registry::{Capability, Kind, Manifest};

/// Capabilities that a run grants to a plugin, in addition to those that every plugin has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants(pub BTreeSet<Capability>);

/// Interfaces of WASI that are linked in their virtual form, for language runtimes.
const VIRTUAL_WASI: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// Reason for the refusal of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run does not grant a capability that the manifest declares.
    #[error(
        "it asks for the capability `{capability}`, which the run does not grant\nhint: {}",
        grant_hint(*.capability, plugin)
    )]
    NotGranted {
        /// The capability.
        capability: Capability,
        /// The plugin's name in run files.
        plugin: String,
    },
    /// A plugin that is not only a reward declares the capability `tools`.
    #[error(
        "it asks for the capability `tools`, which only a plugin of the single kind `reward` may have\nhint: move the \
         reward into a plugin of its own"
    )]
    ToolsAreForRewards,
    /// A plugin that is not an environment declares the capability `inner-environment`.
    #[error(
        "it asks for the capability `inner-environment`, which only an environment may have\nhint: remove it from \
         `capabilities`"
    )]
    WrappersAreEnvironments,
    /// The plugin imports a capability that its manifest does not declare.
    #[error(
        "it imports `{0}`, but its manifest does not declare that capability\nhint: add \"{0}\" to `capabilities` in \
         `[package.metadata.gymkhana]` of its Cargo.toml and build it again"
    )]
    NotRequested(Capability),
    /// The plugin imports an interface that the host does not provide.
    #[error(
        "it imports `{0}`, which the host does not provide\nhint: build it for `wasm32-wasip2` with gymkhana-sdk only"
    )]
    UnknownImport(String),
}

/// How a run file grants a capability.
fn grant_hint(capability: Capability, plugin: &str) -> String {
    let line = match capability {
        Capability::InnerEnvironment => {
            return format!(
                "it is a wrapper: list it in `wrap = [\"{plugin}\"]` of an environment, in the run file or in serve.toml"
            );
        }
        Capability::Assets => "`assets = { \"NAME\" = \"FILE\" }`",
        Capability::Model => "`model = \"NAME\"`, with a section `[models.NAME]`,",
        Capability::Tools => "`tools = true`",
        Capability::Http => "`http = [{ allow = \"https://HOST\" }]`",
        Capability::Log | Capability::Random | Capability::Clock => "nothing",
    };
    format!("to grant it, add {line} under `[plugins.{plugin}]` to the run file")
}

/// Checks whether a plugin with this manifest and these imports may run with these grants.
pub(crate) fn decide(manifest: &Manifest, imports: &[String], grants: &Grants) -> Result<(), Refusal> {
    let only_reward = manifest.kinds.iter().all(|kind| *kind == Kind::Reward);
    let wraps = manifest.capabilities.contains(&Capability::InnerEnvironment);
    if wraps && !manifest.kinds.contains(&Kind::Environment) {
        return Err(Refusal::WrappersAreEnvironments);
    }
    let needed = manifest.capabilities.difference(&manifest.optional).copied().collect();
    let declared = Declared { all: &manifest.capabilities, needed: &needed };
    decide_on(manifest.name.name(), only_reward, declared, imports, grants)
}

/// Capabilities that a manifest declares, and those of them that are not optional.
#[derive(Clone, Copy)]
struct Declared<'a> {
    all: &'a BTreeSet<Capability>,
    needed: &'a BTreeSet<Capability>,
}

fn decide_on(
    plugin: &str,
    only_reward: bool,
    declared: Declared<'_>,
    imports: &[String],
    grants: &Grants,
) -> Result<(), Refusal> {
    for capability in declared.all.iter().copied().filter(|capability| !capability.is_free()) {
        if capability == Capability::Tools && !only_reward {
            return Err(Refusal::ToolsAreForRewards);
        }
        // A run grants its tools as a whole, and a wrapper is nothing alone, so neither can be optional.
        let always = matches!(capability, Capability::Tools | Capability::InnerEnvironment);
        let needed = always || declared.needed.contains(&capability);
        if needed && !grants.0.contains(&capability) {
            return Err(Refusal::NotGranted { capability, plugin: plugin.to_owned() });
        }
    }
    for import in imports {
        match import_kind(import) {
            ImportKind::Free => {}
            ImportKind::Capability(capability) if capability.is_free() || declared.all.contains(&capability) => {}
            ImportKind::Capability(capability) => return Err(Refusal::NotRequested(capability)),
            ImportKind::Unknown => return Err(Refusal::UnknownImport(import.clone())),
        }
    }
    Ok(())
}

enum ImportKind {
    Free,
    Capability(Capability),
    Unknown,
}

fn import_kind(import: &str) -> ImportKind {
    if VIRTUAL_WASI.iter().any(|interface| import.starts_with(interface)) {
        return ImportKind::Free;
    }
    if import.starts_with("gymkhana:wrapper/inner@") {
        return ImportKind::Capability(Capability::InnerEnvironment);
    }
    let interface = import.strip_prefix("gymkhana:plugin/").and_then(|rest| rest.split('@').next());
    match interface {
        // A wrapper imports the types of the last three, whose functions the host does not provide.
        Some("types" | "environment" | "environment-oracle" | "environment-render") => ImportKind::Free,
        Some("log") => ImportKind::Capability(Capability::Log),
        Some("random") => ImportKind::Capability(Capability::Random),
        Some("clock") => ImportKind::Capability(Capability::Clock),
        Some("assets") => ImportKind::Capability(Capability::Assets),
        Some("model") => ImportKind::Capability(Capability::Model),
        Some("tools") => ImportKind::Capability(Capability::Tools),
        Some("http") => ImportKind::Capability(Capability::Http),
        _ => ImportKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use Capability::{Assets, Http, InnerEnvironment, Tools};

    use super::*;

    fn set(capabilities: &[Capability]) -> BTreeSet<Capability> {
        capabilities.iter().copied().collect()
    }

    fn needed(all: &BTreeSet<Capability>) -> Declared<'_> {
        Declared { all, needed: all }
    }

    fn imports(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("gymkhana:plugin/{name}@0.2.0")).collect()
    }

    #[test]
    fn free_capabilities_and_virtual_wasi_need_nothing() {
        let mut names = imports(&["types", "log", "random", "clock"]);
        names.push("wasi:sockets/tcp@0.2.6".to_owned());
        assert_eq!(decide_on("any", false, needed(&set(&[])), &names, &Grants::default()), Ok(()));
    }

    #[test]
    fn a_capability_needs_request_and_grant() {
        let names = imports(&["assets"]);
        let granted = Grants(set(&[Assets]));
        let decide = |requested: &[Capability], grants: &Grants| {
            decide_on("any", false, needed(&set(requested)), &names, grants)
        };
        assert_eq!(decide(&[Assets], &granted), Ok(()));
        assert_eq!(decide(&[], &granted), Err(Refusal::NotRequested(Assets)));
        let refused = decide(&[Assets, Http], &granted).expect_err("http is not granted");
        assert_eq!(refused, Refusal::NotGranted { capability: Http, plugin: "any".to_owned() });
        let line = "add `http = [{ allow = \"https://HOST\" }]` under `[plugins.any]` to the run file";
        assert!(refused.to_string().ends_with(line), "{refused}");
    }

    #[test]
    fn an_optional_capability_may_be_missing_but_must_be_declared() {
        let (all, none) = (set(&[Assets]), set(&[]));
        let decide =
            |all| decide_on("any", false, Declared { all, needed: &none }, &imports(&["assets"]), &Grants::default());
        assert_eq!(decide(&all), Ok(()));
        assert_eq!(decide(&none), Err(Refusal::NotRequested(Assets)));
    }

    #[test]
    fn a_wrapper_is_granted_by_the_list_of_wrappers_alone() {
        let names = ["gymkhana:wrapper/inner@0.2.0".to_owned(), "gymkhana:plugin/environment@0.2.0".to_owned()];
        let (wraps, none) = (set(&[InnerEnvironment]), set(&[]));
        let granted = Grants(wraps.clone());
        assert_eq!(decide_on("retry", false, needed(&wraps), &names, &granted), Ok(()));
        assert_eq!(
            decide_on("retry", false, needed(&none), &names, &granted),
            Err(Refusal::NotRequested(InnerEnvironment))
        );
        // It cannot be optional.
        let optional = Declared { all: &wraps, needed: &none };
        let refused = decide_on("retry", false, optional, &names, &Grants::default()).expect_err("not granted");
        assert!(refused.to_string().contains("list it in `wrap = [\"retry\"]`"), "{refused}");
    }

    #[test]
    fn only_rewards_call_tools() {
        let granted = Grants(set(&[Tools]));
        let decide =
            |only_reward| decide_on("any", only_reward, needed(&set(&[Tools])), &imports(&["tools"]), &granted);
        assert_eq!(decide(true), Ok(()));
        assert_eq!(decide(false), Err(Refusal::ToolsAreForRewards));
    }

    #[test]
    fn an_unknown_interface_is_refused_by_name() {
        for name in ["wasi:http/outgoing-handler@0.2.0", "gymkhana:plugin/shell@0.2.0", "env"] {
            let refused = decide_on("any", false, needed(&set(&[])), &[name.to_owned()], &Grants::default());
            assert_eq!(refused, Err(Refusal::UnknownImport(name.to_owned())));
        }
    }
}
