//! Loading of a plugin: any component is refused with a typed error, or compiled within the limits of one input.
#![no_main]

use std::sync::LazyLock;

use gymkhana_registry::{Quantity, structure};
use gymkhana_sandbox::{Grants, Plugin, Sandbox, SandboxConfig};
use libfuzzer_sys::fuzz_target;

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let config = SandboxConfig { max_instances: Some(1), ..SandboxConfig::default() };
    Sandbox::new(&config).expect("a sandbox")
});

fuzz_target!(|component: &[u8]| {
    let compiled = SANDBOX.counters().compiled;
    let loaded = Plugin::from_bytes(&SANDBOX, "fuzzed.wasm", component, &Grants::default());
    let within = structure(component)
        .is_ok_and(|structure| Quantity::ALL.iter().all(|quantity| structure.value(*quantity) <= quantity.limit()));
    if !within {
        assert!(loaded.is_err(), "a component beyond a limit was loaded");
        assert_eq!(SANDBOX.counters().compiled, compiled, "a component beyond a limit was compiled");
    }
});
