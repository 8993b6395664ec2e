//! Sets the run path of the benches to the libtorch that they are linked with.

include!("../host/trainer/build_libtorch.rs");

fn main() {
    link_libtorch();
}
