//! Contents of the published crates. Those that are made from the contract include it; the repository keeps it outside of
//! their folders.

use std::path::Path;
use std::process::Command;

/// Files that `cargo publish` would upload for the crate in `folder`.
fn packaged(folder: &Path) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(folder)
        .args(["package", "--list", "--allow-dirty", "--offline", "--quiet"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn published_crates_are_complete() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut contract: Vec<String> = std::fs::read_dir(sdk.join("../../wit"))
        .expect("the repository's contract")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_file())
        .map(|entry| format!("wit/{}", entry.file_name().to_string_lossy()))
        .collect();
    contract.sort();
    assert_eq!(contract.len(), 6);
    for (folder, has_contract) in [("../macros", true), ("../bindings", true), (".", false)] {
        let files = packaged(&sdk.join(folder));
        let wit: Vec<&String> = files.iter().filter(|file| file.starts_with("wit/")).collect();
        assert_eq!(wit, contract.iter().filter(|_| has_contract).collect::<Vec<_>>(), "{folder}");
        for file in ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"] {
            assert!(files.iter().any(|name| name == file), "{folder} lacks {file}: {files:?}");
        }
    }
    let bindings = packaged(&sdk.join("../bindings"));
    assert!(bindings.iter().any(|file| file == "src/environment.rs"), "{bindings:?}");
    assert!(!bindings.iter().any(|file| file.starts_with("generator/")), "{bindings:?}");
}
