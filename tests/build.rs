//! Sets the run path of the tests to libtorch, and refuses a guest without a test.

mod build_guests;

include!("../host/trainer/build_libtorch.rs");

fn main() {
    link_libtorch();
    build_guests::every_guest_has_a_test();
}
