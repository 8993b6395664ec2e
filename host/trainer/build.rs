//! Sets the run path to libtorch for this crate's tests and examples.

include!("build_libtorch.rs");

fn main() {
    println!("cargo:rerun-if-changed=build_libtorch.rs");
    link_libtorch();
}
