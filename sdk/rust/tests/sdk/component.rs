//! Output of `cargo build --target wasm32-wasip2` for a plugin: a component that exports exactly the listed interfaces
//! and contains one manifest, even with symbols stripped.

use std::path::{Path, PathBuf};
use std::process::Command;

use wasmparser::{Encoding, Parser, Payload};

/// Contents of a component.
#[derive(Default)]
struct Found {
    is_component: bool,
    exports: Vec<String>,
    manifests: Vec<Vec<u8>>,
    has_names: bool,
}

fn read(path: &Path) -> Found {
    let bytes = std::fs::read(path).expect("the component that was just built");
    let mut found = Found::default();
    // Nested modules have their own headers and ends; the depth identifies the component itself.
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(&bytes) {
        match payload.expect("a valid component") {
            Payload::Version { encoding, .. } => {
                found.is_component |= depth == 0 && encoding == Encoding::Component;
                depth += 1;
            }
            Payload::End(_) => depth -= 1,
            Payload::ComponentExportSection(section) if depth == 1 => {
                found.exports.extend(section.into_iter().map(|export| export.expect("an export").name.name.to_owned()));
            }
            Payload::CustomSection(section) if section.name() == "gymkhana:manifest" => {
                found.manifests.push(section.data().to_vec());
            }
            Payload::CustomSection(section) if depth > 1 => found.has_names |= section.name() == "name",
            _ => {}
        }
    }
    // The linker determines their order.
    found.exports.sort();
    found
}

/// Builds a package for WebAssembly and returns the path of the component.
fn build(package: &str, compiler_arguments: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = Command::new(env!("CARGO"))
        .current_dir(&root)
        .args(["rustc", "--release", "--quiet", "--target", "wasm32-wasip2", "--lib", "--package", package, "--"])
        .args(compiler_arguments)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "{package} does not build: run `rustup target add wasm32-wasip2`");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join(format!("wasm32-wasip2/release/{}.wasm", package.replace('-', "_")))
}

/// JSON of the manifest, after a check of its frame.
fn manifest(found: &Found) -> serde_json::Value {
    let [section] = found.manifests.as_slice() else { panic!("{} manifests, not one", found.manifests.len()) };
    let (magic, rest) = section.split_at(4);
    let (length, json) = rest.split_at(4);
    assert_eq!(magic, b"GYMK");
    assert_eq!(u32::from_le_bytes(length.try_into().expect("four bytes")) as usize, json.len());
    serde_json::from_slice(json).expect("the manifest is JSON")
}

#[test]
fn an_environment_exports_exactly_the_listed_interfaces() {
    let found = read(&build("guest-echo", &[]));
    assert!(found.is_component);
    assert_eq!(found.exports, ["gymkhana:plugin/environment-snapshot@0.2.0", "gymkhana:plugin/environment@0.2.0"]);
    let manifest = manifest(&found);
    assert_eq!(manifest["namespace"], "guest");
    assert_eq!(manifest["name"], "guest-echo");
    assert_eq!(manifest["kinds"], serde_json::json!(["environment"]));
    assert_eq!(manifest["contract"]["version"], "0.2.0");
}

#[test]
fn the_manifest_survives_stripping() {
    assert!(read(&build("calculator", &[])).has_names, "nothing to strip: the next check would prove nothing");
    let found = read(&build("calculator", &["-C", "strip=symbols"]));
    assert!(!found.has_names);
    assert_eq!(found.exports, ["gymkhana:plugin/tool-snapshot@0.2.0", "gymkhana:plugin/tool@0.2.0"]);
    assert_eq!(manifest(&found)["name"], "calculator");
    build("calculator", &[]);
}
