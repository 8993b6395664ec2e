//! Lets this crate's tests and examples find libtorch.

include!("build_libtorch.rs");

fn main() {
    println!("cargo:rerun-if-changed=build_libtorch.rs");
    link_libtorch();
}
