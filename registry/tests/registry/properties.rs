//! Property tests of the parsers: round trips, rejection of modified signed texts, and no panic on arbitrary bytes.

use std::collections::BTreeMap;

use crate::common::{COMPONENT, Made, key, manifest_json, manifest_section, name, tool};
use gymkhana_registry::{
    Digest, IndexRow, Namespace, PluginName, Purpose, RegistryCheckpoint, Release, Requirement, SignedText,
    VersionBump, exports, imports, parse_manifest_section, read_catalogue, read_index, read_manifest, write_index,
};
use proptest::prelude::*;
use semver::Version;

fn word() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?"
}

fn version() -> impl Strategy<Value = Version> {
    (0_u64..100, 0_u64..100, 0_u64..100).prop_map(|(major, minor, patch)| Version::new(major, minor, patch))
}

proptest! {
    #[test]
    fn names_round_trip(namespace in word(), short in word()) {
        let name = PluginName::new(&namespace, &short).expect("a valid name");
        prop_assert_eq!(name.to_string().parse::<PluginName>(), Ok(name.clone()));
        let parsed: Namespace = namespace.parse().expect("a namespace");
        prop_assert_eq!(parsed.as_str(), name.namespace());
        let requirement: Requirement = format!("{name}@^1").parse().expect("a requirement");
        prop_assert_eq!(requirement.to_string(), format!("{name}@^1"));
    }

    #[test]
    fn digests_round_trip(bytes: Vec<u8>) {
        let digest = Digest::of(&bytes);
        prop_assert_eq!(digest.to_string().parse(), Ok(digest));
        prop_assert_eq!(format!("{digest:#}").parse(), Ok(digest));
    }

    #[test]
    fn index_files_round_trip(versions in prop::collection::btree_set(version(), 0..20), yanked: bool) {
        let made = Made::version("1.0.0");
        let row = IndexRow { yanked, ..IndexRow::new(&made.release(), made.signed(), None) };
        let rows: Vec<IndexRow> =
            versions.into_iter().map(|version| IndexRow { version, ..row.clone() }).collect();
        let file = write_index(&rows).expect("JSON");
        prop_assert_eq!(read_index(&name("acme/adder"), file).expect("rows"), rows);
    }

    #[test]
    fn modified_signed_texts_are_rejected(
        value in prop::collection::btree_map(".*", ".*", 0..5),
        at: prop::sample::Index,
        bit in 0_u32..8,
    ) {
        let text = SignedText::new(Purpose::Release, &value, &[&key(1)]).expect("JSON");
        let file = text.file();
        let read = SignedText::parse(&file).expect("a signed text");
        prop_assert!(read.verify(Purpose::Release, &key(1).public()).is_ok());
        prop_assert!(read.verify(Purpose::Checkpoint, &key(1).public()).is_err());
        prop_assert_eq!(read.read_unverified::<BTreeMap<String, String>>().expect("the value"), value);
        let mut modified = file.into_bytes();
        let at = at.index(modified.len());
        modified[at] ^= 1 << bit;
        let verified = SignedText::parse(&modified).and_then(|text| text.verify(Purpose::Release, &key(1).public()));
        prop_assert!(verified.is_err(), "byte {} of {:?}", at, String::from_utf8_lossy(&modified));
    }

    #[test]
    fn proposed_versions_are_sufficient(old in version(), bump in 0_usize..3) {
        let bump = [VersionBump::Patch, VersionBump::Addition, VersionBump::Breaking][bump];
        let next = bump.after(&old);
        prop_assert!(next > old && VersionBump::between(&old, &next) >= bump, "{} to {}", old, next);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
        let _ = parse_manifest_section(&bytes);
        let _ = RegistryCheckpoint::parse_unverified(&bytes);
        let _ = Release::read(&bytes, None);
        let _ = read_index(&name("acme/adder"), &bytes);
        let _ = read_catalogue(&bytes);
        let component = [COMPONENT, &bytes].concat();
        let _ = (read_manifest(&component), exports(&component), imports(&component));
    }

    #[test]
    fn manifests_with_a_modified_byte_do_not_panic(at: prop::sample::Index, byte: u8) {
        let mut component = tool(&manifest_json());
        let at = at.index(component.len());
        component[at] = byte;
        let _ = read_manifest(&component);
        let mut section = manifest_section(&manifest_json());
        let at = at.min(section.len() - 1);
        section[at] = byte;
        let _ = parse_manifest_section(&section);
    }
}
