//! Keys, signatures and checkpoints: accepted inputs and rejected attacks.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{DAY, Made, NOW, acme, add, add_file, by, key, pinned, registry, root, said};
use gymkhana_registry::{
    AcceptedCheckpoint, Answered, CheckpointError, Digest, FunctionDescription, KeyFileError, KeyHolder, PublicKey,
    Purpose, RegistryCheckpoint, RegistryFolder, Release, ReleaseError, Rotation, SecretKey, SelfDescription,
    Signature, SignedText, SignedTextError, ToolDescription,
};

/// First test vector of RFC 8032, and a signature made with its key by OpenSSL.
#[test]
fn keys_and_signatures_are_ed25519() {
    let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let public = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let bytes: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&seed[2 * at..2 * at + 2], 16).expect("digits")).collect();
    let secret = SecretKey::from_seed(bytes.try_into().expect("32 bytes"));
    assert_eq!(secret.public().to_string(), public);
    let signature = secret.sign(Purpose::Rotation, b"root");
    assert_eq!(signature.to_string(), OPENSSL);
    let parsed: Signature = OPENSSL.parse().expect("a signature");
    assert!(secret.public().verifies(Purpose::Rotation, b"root", &parsed));
    // Another text and another purpose.
    assert!(!secret.public().verifies(Purpose::Rotation, b"roots", &parsed));
    assert!(!secret.public().verifies(Purpose::Checkpoint, b"root", &parsed));
}

const OPENSSL: &str = "3abe9dc559760201314805088498aba0b22db8f54a8babe7e8b82f0576f6f6dbab551c381c7d22b875159baa83fac6097db2338eb3637ed7cb1e250200a4b108";

#[test]
fn key_file_round_trips_with_private_permissions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    let secret = SecretKey::generate().expect("random numbers");
    assert_ne!(secret.public(), SecretKey::generate().expect("random numbers").public());
    secret.write(&path).expect("written");
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(SecretKey::read(&path).expect("read").public(), secret.public());
    assert!(matches!(secret.write(&path), Err(KeyFileError::Exists { .. })));
    assert!(!format!("{secret:?}").contains(&fs::read_to_string(&path).expect("text")[30..60]));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
    let error = SecretKey::read(&path).expect_err("others can read it");
    assert!(error.to_string().contains("chmod 600"), "{error}");
    let other = folder.path().join("other");
    fs::write(&other, "a poem").expect("written");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("changed");
    assert!(matches!(SecretKey::read(&other), Err(KeyFileError::NoKey { .. })));
}

#[test]
fn invalid_public_keys_are_rejected() {
    let good = acme().public().to_string();
    assert_eq!(good.parse(), Ok(acme().public()));
    let weak = format!("ed25519:01{}", "0".repeat(62));
    for text in ["", "ed25519:", &good[8..], &good[..70], &good.to_uppercase(), &weak] {
        let error = text.parse::<PublicKey>().expect_err(text);
        assert!(error.to_string().starts_with(&format!("invalid public key `{text}`: ")), "{error}");
    }
}

#[test]
fn release_binds_component_and_signer() {
    let made = Made::version("1.0.0");
    let file = made.signed();
    let release = Release::read(&file, Some(&acme().public())).expect("signed");
    assert_eq!(release, made.release());
    release.check_component(&made.component()).expect("the component");
    assert!(matches!(
        Release::read(&file, Some(&key(9).public())),
        Err(ReleaseError::Signature(SignedTextError::Unsigned(_)))
    ));
    // One modified byte in the text, in the signature and in the component.
    let other_text = file.replacen("Adds", "Eats", 1);
    assert!(matches!(
        Release::read(&other_text, Some(&acme().public())),
        Err(ReleaseError::Signature(SignedTextError::InvalidSignature(_)))
    ));
    let at = file.find("\"signature\":\"").expect("a signature") + 13;
    let mut other_signature = file.clone();
    let flipped = if &file[at..=at] == "0" { "1" } else { "0" };
    other_signature.replace_range(at..=at, flipped);
    assert!(matches!(
        Release::read(&other_signature, Some(&acme().public())),
        Err(ReleaseError::Signature(SignedTextError::InvalidSignature(_)))
    ));
    let other_component = Made { padding: 1, ..made.clone() }.component();
    assert!(matches!(release.check_component(&other_component), Err(ReleaseError::DigestMismatch { .. })));
    // Correctly signed releases with a wrong manifest or wrong exports.
    let mut lie = made.release();
    lie.manifest.capabilities.clear();
    assert!(matches!(lie.check_component(&made.component()), Err(ReleaseError::ManifestMismatch)));
    let mut lie = made.release();
    lie.exports.clear();
    assert!(matches!(lie.check_component(&made.component()), Err(ReleaseError::ExportMismatch)));
    // A signature for another purpose.
    let other_purpose = SignedText::new(Purpose::Checkpoint, &made.release(), &[&acme()]).expect("JSON").file();
    let error = Release::read(&other_purpose, Some(&acme().public())).expect_err("another purpose");
    assert!(matches!(error, ReleaseError::Signature(SignedTextError::InvalidSignature(_))), "{error}");
}

/// A tool that describes one function with a text of this length.
fn described(length: usize) -> SelfDescription {
    let text = "x".repeat(length);
    let function = FunctionDescription {
        seat: None,
        name: "add".to_owned(),
        description: text,
        parameters: serde_json::json!({ "type": "object" }),
        cost: 0.0,
    };
    let (summary, functions) = ("Adds.".to_owned(), Answered::Given(vec![function]));
    let tool = ToolDescription { summary, options: vec![], functions, offers: vec!["snapshots".to_owned()] };
    SelfDescription { tool: Some(tool), ..SelfDescription::default() }
}

#[test]
fn a_release_carries_a_description_of_limited_size() {
    let made = Made::version("1.0.0");
    let read = |release: &Release| Release::read(release.sign(Some(&acme())).expect("JSON"), Some(&acme().public()));
    let with = |description| Release { description: Some(description), ..made.release() };
    let empty = serde_json::to_string(&described(0)).expect("JSON").len();
    let largest = with(described((256 << 10) - empty));
    assert_eq!(read(&largest).expect("within the limit"), largest);
    let error = read(&with(described((256 << 10) - empty + 1))).expect_err("a byte too large");
    assert!(matches!(error, ReleaseError::DescriptionTooLarge(262_145)), "{error}");
    // Keys that this host does not know are ignored, and count.
    let inserted = |key: &str, size: usize| {
        let text = serde_json::to_string(&with(described(0))).expect("JSON");
        let value = format!("\"{key}\":\"{}\",", "y".repeat(size));
        let text = text.replacen("\"description\":{\"", &format!("\"description\":{{{value}\""), 1);
        let signature = acme().sign(Purpose::Release, text.as_bytes());
        let file = format!("{text}\n{{\"key\":\"{}\",\"signature\":\"{signature}\"}}\n", acme().public());
        Release::read(file, Some(&acme().public()))
    };
    assert_eq!(inserted("later", 10).expect("read"), with(described(0)));
    assert!(matches!(inserted("later", 300_000), Err(ReleaseError::DescriptionTooLarge(_))));
    // A release of an older host has none, and its text is unchanged.
    assert!(!made.signed().contains("\"functions\""));
    assert_eq!(Release::read(made.signed(), None).expect("valid").description, None);
}

#[test]
fn a_registry_refuses_a_release_with_a_large_description() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let made = Made::version("1.0.0");
    let add = |description| {
        let release = Release { description: Some(description), ..made.release() };
        let file = release.sign(Some(&acme())).expect("JSON");
        add_file(&registry, &file, &made.component(), by(&root()))
    };
    let error = add(described(256 << 10)).expect_err("too large");
    assert!(said(&error).contains("the self-description in the release has 26"), "{}", said(&error));
    let row = add(described(100)).expect("added");
    assert_eq!(registry.release(&row).expect("a release").description, Some(described(100)));
}

#[test]
fn malformed_signed_texts_are_rejected() {
    for file in ["", "{}", "\n", &format!("{{}}\n{}", "{}\n".repeat(9))] {
        assert!(matches!(SignedText::parse(file), Err(SignedTextError::Form)), "{file:?}");
    }
    for file in ["{}\nsigned, me\n", "{}\n\n"] {
        assert!(matches!(SignedText::parse(file), Err(SignedTextError::Line { line: 2, .. })), "{file:?}");
    }
    assert!(matches!(SignedText::parse(b"\xff\n"), Err(SignedTextError::NotUtf8(_))));
    assert!(SignedText::parse("{}\n").expect("an unsigned text").signers().next().is_none());
}

/// State of the registry as verified by a client that pinned its root key.
fn fresh(registry: &RegistryFolder, last: Option<&AcceptedCheckpoint>) -> Result<AcceptedCheckpoint, CheckpointError> {
    fresh_text(&registry.checkpoint_text().expect("text"), last)
}

fn fresh_text(text: &str, last: Option<&AcceptedCheckpoint>) -> Result<AcceptedCheckpoint, CheckpointError> {
    AcceptedCheckpoint::verify(text, &pinned(), last, NOW)
}

#[test]
fn rollbacks_and_forks_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let old_text = registry.checkpoint_text().expect("text");
    let old = fresh(&registry, None).expect("the first");
    add(&registry, &Made::version("1.0.0")).expect("added");
    let new = fresh(&registry, Some(&old)).expect("the next");
    assert_eq!(new.checkpoint.sequence, old.checkpoint.sequence + 1);
    assert_eq!(fresh(&registry, Some(&new)).expect("the same"), new);
    let error = fresh_text(&old_text, Some(&new)).expect_err("rolled back");
    assert!(matches!(error, CheckpointError::RolledBack { .. }), "{error}");
    // Two states with one sequence number.
    let fork = RegistryCheckpoint { issued: NOW + 1, ..new.checkpoint.clone() }.sign(Some(&root())).expect("JSON");
    assert!(matches!(fresh_text(&fork, Some(&new)), Err(CheckpointError::Forked(_))));
    let unpublished = RegistryCheckpoint { sequence: 99, index: [].into(), ..new.checkpoint.clone() };
    let unpublished = unpublished.sign(Some(&root())).expect("JSON");
    let error = fresh_text(&unpublished, Some(&new)).expect_err("a plugin is gone");
    assert!(error.to_string().contains("plugin `acme/adder`"), "{error}");
    let disowned = RegistryCheckpoint { sequence: 99, namespaces: [].into(), ..new.checkpoint.clone() };
    let disowned = disowned.sign(Some(&root())).expect("JSON");
    let error = fresh_text(&disowned, Some(&new)).expect_err("a namespace is gone");
    assert!(error.to_string().contains("namespace `acme`"), "{error}");
}

#[test]
fn expired_checkpoint_is_rejected_until_renewed() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let text = registry.checkpoint_text().expect("text");
    assert!(AcceptedCheckpoint::verify(&text, &pinned(), None, NOW + DAY - 1).is_ok());
    let error = AcceptedCheckpoint::verify(&text, &pinned(), None, NOW + DAY + 7200).expect_err("expired");
    assert!(error.to_string().contains("expired 2 hours ago"), "{error}");
    let root = root();
    let later = gymkhana_registry::Authority { now: NOW + 2 * DAY, ..by(&root) };
    registry.renew(later).expect("renewed");
    let text = registry.checkpoint_text().expect("text");
    assert!(AcceptedCheckpoint::verify(&text, &pinned(), None, NOW + 2 * DAY).is_ok());
}

#[test]
fn modified_and_foreign_checkpoints_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let text = registry.checkpoint_text().expect("text");
    let altered = text.replacen(&acme().public().to_string(), &key(9).public().to_string(), 1);
    assert_ne!(altered, text);
    assert!(matches!(fresh_text(&altered, None), Err(CheckpointError::Altered(_))));
    let unsigned = format!("{}\n", text.lines().next().expect("a line"));
    assert!(matches!(fresh_text(&unsigned, None), Err(CheckpointError::UnknownRoot { .. })));
    let accepted = fresh(&registry, None).expect("sound");
    let stranger = accepted.checkpoint.sign(Some(&key(9))).expect("JSON");
    assert!(matches!(fresh_text(&stranger, None), Err(CheckpointError::UnknownRoot { .. })));
    // Names that would escape the folder are rejected before they become a path.
    for name in ["../../etc/passwd", "acme/..", "acme/a/b", "acme%2f..", "acme/.", "ACME/adder"] {
        let line = text.lines().next().expect("a line");
        let forged = line.replacen("\"index\":{", &format!("\"index\":{{\"{name}\":\"{}\"", Digest::of(b"")), 1);
        let signature = root().sign(Purpose::Checkpoint, forged.as_bytes());
        let forged = format!("{forged}\n{{\"key\":\"{}\",\"signature\":\"{signature}\"}}\n", pinned());
        let error = fresh_text(&forged, None).expect_err(name);
        assert!(matches!(error, CheckpointError::Damaged(_)), "{}", said(&error));
    }
    let future = text.replacen("\"schema\":1", "\"schema\":7", 1);
    assert!(matches!(fresh_text(&future, None), Err(CheckpointError::Schema(7))));
}

#[test]
fn namespace_key_rotation_requires_the_old_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (registry, namespace) = (registry(&folder.path().join("r")), "acme".parse().expect("a namespace"));
    let before = fresh(&registry, None).expect("sound");
    let mut swapped = before.checkpoint.clone();
    swapped.sequence += 1;
    swapped.namespaces.insert(
        namespace,
        gymkhana_registry::NamespaceKeys { current: [key(9).public()].into(), ..Default::default() },
    );
    let text = swapped.sign(Some(&root())).expect("JSON");
    let error = fresh_text(&text, Some(&before)).expect_err("swapped");
    assert!(matches!(error, CheckpointError::UnendorsedKey { .. }), "{error}");
    // A rotation signed by another key.
    let of = KeyHolder::Namespace("acme".parse().expect("a namespace"));
    let mut forged = Rotation::new(of.clone(), &key(8), key(9).public());
    forged.from = acme().public();
    swapped.rotations.push(forged);
    let text = swapped.sign(Some(&root())).expect("JSON");
    let error = fresh_text(&text, Some(&before)).expect_err("a forged rotation");
    assert!(matches!(error, CheckpointError::UnendorsedKey { key: found, .. } if found == key(9).public()), "{error}");
    // Two rotations between two visits of the client.
    let root = root();
    registry.rotate(Rotation::new(of.clone(), &acme(), key(3).public()), false, by(&root)).expect("rotated");
    registry.rotate(Rotation::new(of.clone(), &key(3), key(4).public()), true, by(&root)).expect("rotated");
    let after = fresh(&registry, Some(&before)).expect("endorsed by the old keys");
    let keys = &after.checkpoint.namespaces["acme"];
    assert_eq!(keys.current, [key(4).public()].into());
    assert_eq!(keys.retired, [acme().public()].into(), "the one in the middle was revoked");
    // A retired key cannot be rotated.
    let error = registry.rotate(Rotation::new(of, &acme(), key(9).public()), false, by(&root)).expect_err("retired");
    assert!(error.to_string().ends_with("it is not a current key of the namespace"), "{error}");
}

#[test]
fn root_key_rotation_replaces_the_old_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let before = fresh(&registry, None).expect("sound");
    registry.replace_root(&key(5), by(&root())).expect("replaced");
    let after = fresh(&registry, Some(&before)).expect("endorsed by the old root");
    assert_eq!(after.root, Some(key(5).public()));
    // A new client follows the same rotation.
    assert_eq!(fresh(&registry, None).expect("endorsed by the pinned root").root, after.root);
    let mut back = after.checkpoint.clone();
    back.sequence += 1;
    let error = fresh_text(&back.sign(Some(&root())).expect("JSON"), Some(&after)).expect_err("the old root");
    assert!(matches!(error, CheckpointError::UnknownRoot { .. }), "{error}");
}
