//! Lets the binary find libtorch where it was linked.

include!("../trainer/build_libtorch.rs");

fn main() {
    link_libtorch();
}
