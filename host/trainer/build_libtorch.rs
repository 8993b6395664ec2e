// Sets the run path to libtorch for binaries and tests. `include!` this file in the build script of every package that
// has a binary or tests and links `gymkhana-trainer`, and call `link_libtorch()`: Cargo does not pass link arguments of
// a dependency to the packages that depend on it.

/// Version that `tch` requires, exactly.
const LIBTORCH_VERSION: &str = "2.11.0";

/// Adds `$LIBTORCH/lib` to the run path of this package's binaries and tests; returns `$LIBTORCH`.
fn link_libtorch() -> String {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let folder = std::env::var("LIBTORCH").unwrap_or_default();
    let version_file = std::path::Path::new(&folder).join("build-version");
    println!("cargo:rerun-if-changed={}", version_file.display());
    match std::fs::read_to_string(&version_file) {
        Ok(version) if version.trim().split('+').next() == Some(LIBTORCH_VERSION) => {}
        Ok(version) => panic!(
            "libtorch {LIBTORCH_VERSION} is not at `{folder}`, but {}\nhint: run `cargo xtask setup`, or set LIBTORCH \
             to a folder of version {LIBTORCH_VERSION}",
            version.trim()
        ),
        Err(_) => panic!("libtorch {LIBTORCH_VERSION} is not at `{folder}`\nhint: run `cargo xtask setup`"),
    }
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}/lib");
    folder
}
