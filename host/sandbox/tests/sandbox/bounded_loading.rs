//! Loading is bounded by limits: attacks appended to a real plugin, each with a twin that loads and plays.

use std::fs;

use crate::common::{component, config, text, train};
use crate::parts::{nested, padded, with_component, with_module};
use gymkhana_record::Seed;
use gymkhana_registry::{ComponentError, ManifestError, Quantity};
use gymkhana_sandbox::{Action, EnvironmentEpisode, Grants, Limits, LoadError, Plugin, Sandbox, SandboxConfig};

/// Size from which a plugin runs in the engine for language runtimes.
const HEAVY_BYTES: usize = 8 << 20;

fn echo() -> Vec<u8> {
    fs::read(component("guest-echo")).expect("built")
}

fn sandbox(memory_mib: usize) -> Sandbox {
    let limits = Limits { memory_bytes: memory_mib << 20, ..Limits::default() };
    Sandbox::new(&SandboxConfig { limits, max_instances: Some(8), ..config() }).expect("a sandbox")
}

fn load(sandbox: &Sandbox, bytes: &[u8]) -> Result<Plugin, LoadError> {
    Plugin::from_bytes(sandbox, "appended.wasm", bytes, &Grants::default())
}

/// Bytes of memory after a step.
async fn played(plugin: &Plugin) -> u64 {
    let (mut episode, _) = EnvironmentEpisode::start(plugin, &train(0), &[], Seed(1)).await.expect("a start");
    episode.step(0, Action::Message(&text("hello"))).await.expect("a step");
    episode.cost().memory_bytes.expect("an instance of its own")
}

#[tokio::test]
async fn a_plugin_with_a_bomb_of_instantiations_is_refused_before_it_is_compiled() {
    let sandbox = sandbox(64);
    let attack = with_component(&echo(), &nested(5, 100));
    let error = load(&sandbox, &attack).expect_err("10^10 instances");
    let LoadError::Manifest {
        source: ManifestError::Component(ComponentError::TooComplex { quantity, value, .. }),
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(quantity, Quantity::Instances);
    assert!(value > 10_101_010_100, "{value}, with those of the plugin itself");
    assert_eq!(sandbox.counters().compiled, 0);
    let twin = with_component(&echo(), &nested(3, 9));
    played(&load(&sandbox, &twin).expect("819 further instances")).await;
}

/// A module with this initial memory.
fn memory(mib: usize) -> Vec<u8> {
    wat::parse_str(format!("(module (memory {}))", mib * 16)).expect("sound text")
}

#[tokio::test]
async fn initial_memory_counts_whatever_the_size_of_the_plugin() {
    let large = with_module(&echo(), &memory(240));
    for plugin in [large.clone(), padded(&large, HEAVY_BYTES)] {
        let error = load(&sandbox(64), &plugin).expect_err("240 MiB and the plugin's own");
        assert!(matches!(error, LoadError::Memory { needed: 242, limit: 64, .. }), "{error:?}");
        let granted = load(&sandbox(256), &plugin).expect("within the limit");
        let held = played(&granted).await;
        assert!((240 << 20..=256 << 20).contains(&held), "{held} bytes are recorded");
    }
}

#[tokio::test]
async fn a_plugin_may_have_a_memory_limit_of_its_own() {
    let sandbox = sandbox(64);
    let large = padded(&with_module(&echo(), &memory(100)), HEAVY_BYTES);
    assert!(matches!(load(&sandbox, &large), Err(LoadError::Memory { .. })));
    assert!(played(&load(&sandbox.with_memory(128 << 20), &large).expect("granted")).await > 100 << 20);
    played(&load(&sandbox, &echo()).expect("a small plugin")).await;
}
