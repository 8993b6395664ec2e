//! The signed state of a registry and a release: what has no valid signature is refused.
#![no_main]

use std::sync::LazyLock;

use gymkhana_registry::{AcceptedCheckpoint, PublicKey, RegistryCheckpoint, Release, SecretKey};
use libfuzzer_sys::fuzz_target;

static KEY: LazyLock<PublicKey> = LazyLock::new(|| SecretKey::from_seed([1; 32]).public());

fuzz_target!(|text: &str| {
    assert!(AcceptedCheckpoint::verify_signature(text, &KEY).is_err(), "the signature is forged");
    assert!(Release::read(text, Some(&*KEY)).is_err(), "the signature is forged");
    let _ = Release::read(text, None);
    if let Ok(state) = RegistryCheckpoint::parse_unverified(text) {
        let written = state.sign(None).expect("an accepted state is written");
        assert_eq!(RegistryCheckpoint::parse_unverified(&written).expect("a written state is accepted"), state);
    }
});
