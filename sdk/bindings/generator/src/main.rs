//! Generates the modules in `sdk/bindings/src` from the contract, and their digests.
//!
//! They are committed because generating them in the build of each plugin compiles some twenty crates.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use wit_bindgen_core::{Files, WorldGenerator as _, wit_parser::Resolve};
use wit_bindgen_rust::{Opts, WithOption};

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

/// Module of what a wrapper imports. Its types are those of the exported interfaces.
const WRAPPER: &str = "wrapper";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let modules = home.join("src");
    let mut digests = String::new();
    for folder in ["wit", "wit/wrapper"] {
        let mut files: Vec<_> = fs::read_dir(home.join(folder))?.collect::<std::io::Result<_>>()?;
        files.retain(|file| file.path().is_file());
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files {
            note(&mut digests, &format!("{folder}/{}", file.file_name().to_string_lossy()), &fs::read(file.path())?)?;
        }
    }
    for module in [IMPORTS].into_iter().chain(EXPORTS).chain([WRAPPER]) {
        let source = generate(&home.join("wit"), module)?;
        fs::write(modules.join(format!("{module}.rs")), &source)?;
        note(&mut digests, &format!("src/{module}.rs"), &source)?;
    }
    fs::write(modules.join("digests.txt"), digests)?;
    Ok(())
}

/// Adds a line with the SHA-256 of a file, as `sha256sum` prints it.
fn note(digests: &mut String, path: &str, content: &[u8]) -> Result<()> {
    for byte in Sha256::digest(content) {
        write!(digests, "{byte:02x}")?;
    }
    Ok(writeln!(digests, "  {path}")?)
}

/// Source of a module.
fn generate(contract: &Path, module: &str) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_path(contract)?;
    let (world, options) = match module {
        IMPORTS => (IMPORTS.to_owned(), imports()),
        WRAPPER => {
            (package, _) = resolve.push_path(contract.join("wrapper"))?;
            (WRAPPER.to_owned(), wrapper())
        }
        _ => export(module),
    };
    let world = resolve.select_world(&[package], Some(&world))?;
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    let (_, source) = files.iter().next().ok_or("wit-bindgen generated no file")?;
    Ok(source.to_vec())
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

fn wrapper() -> Opts {
    let exported = ["environment", "environment_oracle", "environment_render"].map(|module| {
        let path = format!("crate::{module}::exports::gymkhana::plugin::{module}");
        (format!("gymkhana:plugin/{}@0.2.0", module.replace('_', "-")), WithOption::Path(path))
    });
    Opts { with: [types()].into_iter().chain(exported).collect(), ..shared() }
}

/// The common types, which the module of imports defines.
fn types() -> (String, WithOption) {
    let path = "crate::imports::gymkhana::plugin::types".to_owned();
    ("gymkhana:plugin/types@0.2.0".to_owned(), WithOption::Path(path))
}

/// World and options of an exported interface. Its macro and its types are used by `gymkhana_sdk::plugin!`.
fn export(module: &str) -> (String, Opts) {
    let options = Opts {
        export_macro_name: Some(format!("export_{module}")),
        pub_export_macro: true,
        default_bindings_module: Some(format!("gymkhana_sdk::bindings::{module}")),
        with: vec![types()],
        ..shared()
    };
    (format!("{}-plugin", module.replace('_', "-")), options)
}
