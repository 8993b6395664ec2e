//! The files below `src/bindings` are those that wit-bindgen generates from the contract.
//!
//! They are committed because generating them in the build of each plugin compiles some twenty crates. To generate them
//! again: `UPDATE_BINDINGS=1 cargo test --release --workspace --test bindings`.

use std::path::Path;

use wit_bindgen_core::{Files, WorldGenerator as _, wit_parser::Resolve};
use wit_bindgen_rust::{Opts, WithOption};

/// Set to write the files instead of comparing them.
const UPDATE: &str = "UPDATE_BINDINGS";
/// Module of the imports, which defines the types of all modules.
const IMPORTS: &str = "imports";
/// Modules with one exported interface each; their worlds are called `MODULE-plugin`.
const EXPORTS: [&str; 11] = [
    "environment",
    "environment_snapshot",
    "environment_state_key",
    "environment_privileged",
    "environment_oracle",
    "environment_guidance",
    "environment_render",
    "tool",
    "tool_snapshot",
    "tool_final_view",
    "reward",
];

#[test]
fn committed_bindings_are_those_of_the_contract() {
    for module in [IMPORTS].into_iter().chain(EXPORTS) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/bindings/{module}.rs"));
        let generated = generate(module);
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, &generated).expect("written");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == generated, "`{}` is outdated; generate it with {UPDATE}=1", path.display());
    }
}

/// Source of a module.
fn generate(module: &str) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("wit")).expect("the contract");
    let (world, options) = if module == IMPORTS { (IMPORTS.to_owned(), imports()) } else { export(module) };
    let world = resolve.select_world(&[package], Some(&world)).expect("a world of the contract");
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files).expect("generated");
    let (_, source) = files.iter().next().expect("one file");
    String::from_utf8(source.to_vec()).expect("text")
}

fn shared() -> Opts {
    Opts {
        format: true,
        generate_unused_types: true,
        additional_derive_attributes: vec!["PartialEq".to_owned()],
        ..Opts::default()
    }
}

fn imports() -> Opts {
    Opts { generate_all: true, ..shared() }
}

/// World and options of an exported interface. Its macro and its types are used by `gymkhana_sdk::plugin!`.
fn export(module: &str) -> (String, Opts) {
    let types = "crate::bindings::imports::gymkhana::plugin::types".to_owned();
    let options = Opts {
        export_macro_name: Some(format!("export_{module}")),
        pub_export_macro: true,
        default_bindings_module: Some(format!("gymkhana_sdk::bindings::{module}")),
        with: vec![("gymkhana:plugin/types@0.1.0".to_owned(), WithOption::Path(types))],
        ..shared()
    };
    (format!("{}-plugin", module.replace('_', "-")), options)
}
