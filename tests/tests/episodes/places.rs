//! Sandbox places of an episode: a plugin with several memories takes several places.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use gymkhana_rollout::{BoundPlugin, PluginSet};
use gymkhana_sandbox::{Grants, Plugin, Sandbox, SandboxConfig};
use gymkhana_tests::component;

/// A core module with one page of memory.
const MEMORY: [u8; 13] = *b"\0asm\x01\0\0\0\x05\x03\x01\0\x01";

/// The component with an additional core module, and so an additional memory, that is instantiated with it.
fn with_another_memory(component: &[u8]) -> Vec<u8> {
    let mut modules = 0;
    let mut place = 8;
    while place < component.len() {
        let id = component[place];
        let (mut size, mut shift) = (0_usize, 0);
        loop {
            place += 1;
            size |= usize::from(component[place] & 0x7f) << shift;
            shift += 7;
            if component[place] & 0x80 == 0 {
                break;
            }
        }
        place += 1 + size;
        modules += u8::from(id == 1);
    }
    let module = [&[1, MEMORY.len() as u8], &MEMORY[..]].concat();
    let instance = [2, 4, 1, 0, modules, 0];
    [component, &module, &instance].concat()
}

#[tokio::test]
async fn an_episode_takes_the_places_of_all_its_plugins() {
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(8), ..SandboxConfig::default() }).unwrap();
    let tool = Plugin::load(&sandbox, &component("calculator"), &Grants::default()).unwrap();
    let small = std::fs::read(component("guest-echo")).unwrap();
    let large = with_another_memory(&small);
    for (bytes, places) in [(small, 2), (large, 3)] {
        let environment = Plugin::from_bytes(&sandbox, "echo.wasm", &bytes, &Grants::default()).unwrap();
        let bound = |plugin: &Plugin| BoundPlugin { plugin: plugin.clone(), options: vec![] };
        let set = PluginSet::assemble(bound(&environment), vec![bound(&tool)], vec![]).await.unwrap();
        assert_eq!(set.places(), places);
    }
}
