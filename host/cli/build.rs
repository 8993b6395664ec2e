//! Links libtorch, passes its folder and version to the programs, with the version of wasmtime, and embeds the templates
//! of new plugins.

include!("../trainer/build_libtorch.rs");
include!("build_templates.rs");

fn main() {
    // Without the trainer's program, no folder of libtorch is known at build time.
    let folder = if std::env::var_os("CARGO_FEATURE_TRAIN").is_some() { link_libtorch() } else { String::new() };
    println!("cargo:rustc-env=GYMKHANA_LIBTORCH={folder}");
    println!("cargo:rustc-env=GYMKHANA_LIBTORCH_VERSION={LIBTORCH_VERSION}");
    println!("cargo:rustc-env=GYMKHANA_WASMTIME_VERSION={}", locked_version("wasmtime"));
    embed_templates();
}

/// Version of a package in the workspace's lock file. The package itself has no constant with it.
fn locked_version(package: &str) -> String {
    let own = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let path = std::path::Path::new(&own).join("../../Cargo.lock");
    println!("cargo:rerun-if-changed={}", path.display());
    let lock = std::fs::read_to_string(&path).unwrap_or_default();
    let name = format!("name = \"{package}\"");
    let version = lock.lines().skip_while(|line| *line != name).nth(1);
    let version = version.and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.unwrap_or_else(|| panic!("`{}` does not pin {package}", path.display())).to_owned()
}
