//! Lets this crate's tests and examples find libtorch.

include!("../trainer/build_libtorch.rs");

fn main() {
    println!("cargo:rerun-if-changed=../trainer/build_libtorch.rs");
    link_libtorch();
}
