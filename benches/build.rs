//! Lets the benches find libtorch where it was linked.

include!("../host/trainer/build_libtorch.rs");

fn main() {
    link_libtorch();
}
