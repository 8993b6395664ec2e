//! Manifests: reading valid plugins and rejecting invalid ones.

use crate::common::{
    COMPONENT, MODULE, component, custom, export, manifest_json, manifest_section, nested_component, nested_module,
    tool,
};
use gymkhana_registry::{
    Capability, ComponentError, ContractError, Digest, Kind, Manifest, ManifestError, exports, imports, read_manifest,
};

fn error(bytes: &[u8]) -> ManifestError {
    read_manifest(bytes).expect_err("an invalid plugin")
}

#[test]
fn manifest_of_a_tool_is_read() {
    let bytes = tool(&manifest_json());
    let manifest = read_manifest(&bytes).expect("a valid plugin");
    assert_eq!(manifest.name.to_string(), "gymkhana/calculator");
    assert_eq!(manifest.version.to_string(), "0.1.0");
    assert_eq!(manifest.kinds.iter().copied().collect::<Vec<_>>(), [Kind::Tool]);
    assert_eq!(manifest.capabilities.iter().copied().collect::<Vec<_>>(), [Capability::Log]);
    assert!(manifest.deterministic);
    assert_eq!(manifest.reward_range, None);
    assert!(!manifest.quick);
    assert_eq!(manifest.check_contract(), Ok(()));
    assert_eq!(exports(&bytes).expect("a component"), ["gymkhana:plugin/tool@0.2.0"]);
    assert_eq!(imports(&bytes).expect("a component"), ["gymkhana:plugin/log@0.2.0"]);
}

#[test]
fn manifest_round_trips_through_json() {
    let json = manifest_json()
        .replace(r#""deterministic":true"#, r#""deterministic":false,"reward-range":[-0.5,1.0],"quick":true"#);
    let manifest: Manifest = serde_json::from_str(&json).expect("a manifest");
    let range = manifest.reward_range.expect("a range");
    assert_eq!((range.low, range.high), (-0.5, 1.0));
    assert!(manifest.quick);
    let again = serde_json::to_string(&manifest).expect("JSON");
    assert_eq!(serde_json::from_str::<Manifest>(&again).expect("a manifest"), manifest);
}

#[test]
fn text_limits_and_optional_capabilities_are_checked() {
    let with = |from: &str, to: &str| {
        let json = manifest_json();
        assert!(json.contains(from), "{json}");
        serde_json::from_str::<Manifest>(&json.replace(from, to)).map_err(|error| error.to_string())
    };
    let described = |bytes: usize| {
        let json: serde_json::Value = serde_json::from_str(&manifest_json()).expect("JSON");
        let own = json["description"].as_str().expect("a text").to_owned();
        with(&format!("\"description\":\"{own}\""), &format!("\"description\":\"{}\"", "x".repeat(bytes)))
    };
    assert!(described(1000).is_ok());
    assert!(described(1001).expect_err("too long").contains("`description` is longer than 1000 bytes"));
    let optional =
        |name: &str| with(r#""deterministic":true"#, &format!(r#""optional":["{name}"],"deterministic":true"#));
    assert!(optional("log").is_ok());
    assert!(
        optional("http").expect_err("not requested").contains("`optional` lists `http`, which `capabilities` lacks")
    );
}

#[test]
fn manifest_is_found_at_any_depth() {
    let manifest = manifest_section(&manifest_json());
    let export = export("gymkhana:plugin/tool@0.2.0");
    for section in [
        manifest.clone(),
        nested_module(&manifest),
        nested_component(&nested_module(&manifest)),
        nested_component(&nested_component(&manifest)),
    ] {
        read_manifest(&component(&[section, export.clone()])).expect("a valid plugin");
    }
}

#[test]
fn other_file_types_are_distinguished() {
    assert!(matches!(error(b""), ManifestError::Component(ComponentError::Empty)));
    assert!(matches!(error(b"#!/bin/sh\n"), ManifestError::Component(ComponentError::NotWebAssembly)));
    let module = error(&[MODULE, &manifest_section(&manifest_json())].concat());
    assert!(matches!(module, ManifestError::Component(ComponentError::CoreModule)));
    assert!(module.to_string().contains("wasm32-wasip2"), "{module}");
}

#[test]
fn exactly_one_manifest_is_required() {
    assert!(matches!(error(COMPONENT), ManifestError::Missing));
    let other_section = component(&[custom("gymkhana:other", b"GYMK")]);
    assert!(matches!(error(&other_section), ManifestError::Missing));
    let manifest = manifest_section(&manifest_json());
    let export = export("gymkhana:plugin/tool@0.2.0");
    let two = component(&[nested_module(&manifest), nested_module(&manifest), export.clone()]);
    assert!(matches!(error(&two), ManifestError::Several(2)));
    // Two sections joined by a linker.
    let framed = [b"GYMK", &2_u32.to_le_bytes()[..], b"{}"].concat();
    let joined = component(&[custom("gymkhana:manifest", &framed.repeat(2)), export]);
    assert!(matches!(error(&joined), ManifestError::Frame(_)));
}

#[test]
fn damaged_frames_are_rejected() {
    for content in
        [&b""[..], b"GYM", b"WRNG\x02\0\0\0{}", b"GYMK\x02\0", b"GYMK\x03\0\0\0{}", b"GYMK\xff\xff\xff\xff{}"]
    {
        let bytes = component(&[custom("gymkhana:manifest", content)]);
        assert!(matches!(error(&bytes), ManifestError::Frame(_)), "{content:?}");
    }
}

#[test]
fn invalid_fields_are_named() {
    for (good, bad, named) in [
        (r#""name":"calculator""#, r#""name":"Calculator""#, "gymkhana/Calculator"),
        (r#""version":"0.1.0","kinds""#, r#""version":"1","kinds""#, "version"),
        (r#"["tool"]"#, r#"[]"#, "`kinds` is empty"),
        (r#"["tool"]"#, r#"["gadget"]"#, "gadget"),
        (r#"["log"]"#, r#"["files"]"#, "files"),
        (r#""deterministic":true"#, r#""deterministic":true,"reward-range":[1,0]"#, "`reward-range` is [1, 0]"),
        (r#","deterministic":true"#, "", "deterministic"),
    ] {
        let json = manifest_json().replace(good, bad);
        assert_ne!(json, manifest_json());
        let ManifestError::Invalid(cause) = error(&tool(&json)) else { panic!("{bad} passed") };
        assert!(cause.to_string().contains(named), "{cause}");
    }
}

#[test]
fn unsupported_schema_is_reported_before_other_errors() {
    assert!(matches!(error(&tool(r#"{"schema":2,"shape":"unknown"}"#)), ManifestError::Schema(2)));
}

#[test]
fn kinds_and_exports_must_agree() {
    let manifest = nested_module(&manifest_section(&manifest_json()));
    let nothing = component(std::slice::from_ref(&manifest));
    assert!(matches!(error(&nothing), ManifestError::Kind { kind: Kind::Tool, .. }));
    let more = component(&[manifest, export("gymkhana:plugin/tool@0.2.0"), export("gymkhana:plugin/reward@0.2.0")]);
    assert!(matches!(error(&more), ManifestError::Kind { kind: Kind::Reward, .. }));
}

#[test]
fn other_contracts_require_a_rebuild() {
    let mut manifest = read_manifest(&tool(&manifest_json())).expect("a valid plugin");
    manifest.contract.digest = Digest::of(b"another text");
    let error = manifest.check_contract().expect_err("another digest");
    assert!(matches!(error, ContractError::Digest { .. }));
    assert!(error.to_string().contains("rebuild"), "{error}");
    manifest.contract.version = semver::Version::new(0, 1, 0);
    let error = manifest.check_contract().expect_err("another version");
    assert!(matches!(error, ContractError::Version { .. }));
    assert!(error.to_string().contains("0.1.0") && error.to_string().contains("rebuild"), "{error}");
}

#[test]
fn every_truncation_is_rejected() {
    let bytes = tool(&manifest_json());
    for length in 0..bytes.len() {
        assert!(read_manifest(&bytes[..length]).is_err(), "the first {length} of {} bytes passed", bytes.len());
    }
}

#[test]
fn bit_flips_do_not_panic() {
    let bytes = tool(&manifest_json());
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            // Some flips give another valid manifest; a panic or a hang is an error.
            let _ = read_manifest(&damaged);
        }
    }
}

/// Reference for the version parsers of the Python and JavaScript SDKs, whose tests contain the same cases.
#[test]
fn versions_follow_semver() {
    let is_version = |text: &str| text.parse::<semver::Version>().is_ok();
    for text in
        ["0.1.0", "1.2.3-rc.1", "1.0.0-0a.b-c.0", "1.0.0+001", "1.0.0-a+b.c-d", "1.0.0--", "18446744073709551615.0.0"]
    {
        assert!(is_version(text), "{text}");
    }
    for text in [
        "1",
        "1.2",
        "01.2.3",
        "1.02.3",
        "1.2.3.4",
        "1.2.3-",
        "1.2.3+",
        "1.2.3-01",
        "1.2.3-a..b",
        "1.2.3-.a",
        "1.2.3-a_b",
        "1.2.3+a_b",
        "1.2.3-ä",
        "1.2.3-a.",
        "1.2.3+a..b",
        "1.2.3\n",
        " 1.2.3",
        "v1.2.3",
        "\u{661}.2.3",
        "18446744073709551616.0.0",
    ] {
        assert!(!is_version(text), "{text}");
    }
}
