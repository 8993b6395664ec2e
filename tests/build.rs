//! Sets the run path of the tests to libtorch.

include!("../host/trainer/build_libtorch.rs");

fn main() {
    link_libtorch();
}
