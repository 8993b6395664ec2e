//! Lets the targets find libtorch, which the run file's crate links.

include!("../host/trainer/build_libtorch.rs");

fn main() {
    println!("cargo:rerun-if-changed=../host/trainer/build_libtorch.rs");
    link_libtorch();
}
