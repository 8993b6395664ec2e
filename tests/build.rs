//! Lets the tests find libtorch where it was linked, and refuses a guest that no test tames.

mod build_guests;

include!("../host/trainer/build_libtorch.rs");

fn main() {
    link_libtorch();
    build_guests::every_guest_has_a_test();
}
