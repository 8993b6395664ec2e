//! The one place that decides which host interfaces a plugin may import.
//!
//! A capability needs two things: the plugin's manifest asks for it, and the run grants it.
//! Only `log`, `random` and `clock` come without asking.

use std::collections::BTreeSet;

use gymkhana_registry::{Capability, Kind, Manifest};

/// What a run grants to a plugin, beyond the capabilities that every plugin has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants(pub BTreeSet<Capability>);

/// Interfaces of WASI that are linked in their virtual form: language runtimes need them, and they lead nowhere.
const VIRTUAL_WASI: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// Why a plugin is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It asks for what the run does not grant.
    #[error(
        "it asks for the capability `{capability}`, which the run does not grant; to grant it, add {} to the run file",
        grant_line(*.capability, plugin)
    )]
    NotGranted {
        /// What it asks for.
        capability: Capability,
        /// Its name in run files.
        plugin: String,
    },
    /// Only rewards may call tools.
    #[error(
        "it asks for the capability `tools`, which is for plugins that are rewards and nothing else: what calls a tool \
         must not be a tool, nor what an agent acts in"
    )]
    ToolsAreForRewards,
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

/// What stands in a run file that grants a capability.
fn grant_line(capability: Capability, plugin: &str) -> String {
    let line = match capability {
        Capability::Assets => "`assets = { \"NAME\" = \"FILE\" }`",
        Capability::Model => "`model = \"NAME\"`, with a section `[models.NAME]`,",
        Capability::Tools => "`tools = true`",
        Capability::Http => "`http = [{ allow = \"https://HOST\" }]`",
        Capability::Log | Capability::Random | Capability::Clock => "nothing",
    };
    format!("{line} under `[plugins.{plugin}]`")
}

/// Decides whether a plugin with this manifest and these imports may run with these grants.
pub(crate) fn decide(manifest: &Manifest, imports: &[String], grants: &Grants) -> Result<(), Refusal> {
    let only_reward = manifest.kinds.iter().all(|kind| *kind == Kind::Reward);
    let needed = manifest.capabilities.difference(&manifest.optional).copied().collect();
    let asked = Asked { all: &manifest.capabilities, needed: &needed };
    decide_on(manifest.name.name(), only_reward, asked, imports, grants)
}

/// What a manifest asks for, and what of it the plugin cannot do without.
#[derive(Clone, Copy)]
struct Asked<'a> {
    all: &'a BTreeSet<Capability>,
    needed: &'a BTreeSet<Capability>,
}

fn decide_on(
    plugin: &str,
    only_reward: bool,
    asked: Asked<'_>,
    imports: &[String],
    grants: &Grants,
) -> Result<(), Refusal> {
    for capability in asked.all.iter().copied().filter(|capability| !capability.is_free()) {
        if capability == Capability::Tools && !only_reward {
            return Err(Refusal::ToolsAreForRewards);
        }
        // A run's tools are not handed out one by one: who asks for them at all needs them.
        let needed = capability == Capability::Tools || asked.needed.contains(&capability);
        if needed && !grants.0.contains(&capability) {
            return Err(Refusal::NotGranted { capability, plugin: plugin.to_owned() });
        }
    }
    for import in imports {
        match meaning(import) {
            Meaning::Harmless => {}
            Meaning::Capability(capability) if capability.is_free() || asked.all.contains(&capability) => {}
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
    use Capability::{Assets, Http, Tools};

    use super::*;

    fn set(capabilities: &[Capability]) -> BTreeSet<Capability> {
        capabilities.iter().copied().collect()
    }

    fn needed(all: &BTreeSet<Capability>) -> Asked<'_> {
        Asked { all, needed: all }
    }

    fn imports(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("gymkhana:plugin/{name}@0.1.0")).collect()
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
    fn what_is_optional_may_be_missing_but_not_unasked() {
        let (all, none) = (set(&[Assets]), set(&[]));
        let decide =
            |all| decide_on("any", false, Asked { all, needed: &none }, &imports(&["assets"]), &Grants::default());
        assert_eq!(decide(&all), Ok(()));
        assert_eq!(decide(&none), Err(Refusal::NotRequested(Assets)));
    }

    #[test]
    fn tools_are_called_by_rewards_alone() {
        let granted = Grants(set(&[Tools]));
        let decide =
            |only_reward| decide_on("any", only_reward, needed(&set(&[Tools])), &imports(&["tools"]), &granted);
        assert_eq!(decide(true), Ok(()));
        assert_eq!(decide(false), Err(Refusal::ToolsAreForRewards));
    }

    #[test]
    fn an_interface_of_nobody_is_refused_by_name() {
        for name in ["wasi:http/outgoing-handler@0.2.0", "gymkhana:plugin/shell@0.1.0", "env"] {
            let refused = decide_on("any", false, needed(&set(&[])), &[name.to_owned()], &Grants::default());
            assert_eq!(refused, Err(Refusal::UnknownImport(name.to_owned())));
        }
    }
}
