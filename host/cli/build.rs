//! Lets the binary find libtorch where it was linked, and tells its launcher which one that is.

include!("../trainer/build_libtorch.rs");

fn main() {
    let folder = link_libtorch();
    println!("cargo:rustc-env=GYMKHANA_LIBTORCH={folder}");
    println!("cargo:rustc-env=GYMKHANA_LIBTORCH_VERSION={LIBTORCH_VERSION}");
}
