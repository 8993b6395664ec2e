// Sets the run path to libtorch for binaries and tests. `include!` this file in the build script of every package that
// has a binary or tests and links `gymkhana-trainer`, and call `link_libtorch()`: Cargo does not pass link arguments of
// a dependency to the packages that depend on it.

include!("libtorch_version.rs");

/// Version that `tch` requires, exactly.
const LIBTORCH_VERSION: &str = "2.11.0";

/// Adds `$LIBTORCH/lib` to the run path of this package's binaries and tests; returns `$LIBTORCH`.
fn link_libtorch() -> String {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let folder = std::env::var("LIBTORCH").unwrap_or_default();
    let path = std::path::Path::new(&folder);
    for file in LIBTORCH_VERSION_FILES.map(|name| path.join(name)).iter().filter(|file| file.exists()) {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    match libtorch_version(path) {
        Some(version) if version.split('+').next() == Some(LIBTORCH_VERSION) => {}
        Some(version) => panic!(
            "libtorch {LIBTORCH_VERSION} is not at `{folder}`, but {version}\nhint: run `cargo xtask setup`, or set \
             LIBTORCH to a folder of version {LIBTORCH_VERSION}"
        ),
        None => panic!("libtorch {LIBTORCH_VERSION} is not at `{folder}`\nhint: run `cargo xtask setup`"),
    }
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}/lib");
    folder
}
