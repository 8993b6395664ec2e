//! Lets the binary find libtorch where it was linked, tells its launcher which one that is, and embeds the templates
//! of new plugins.

include!("../trainer/build_libtorch.rs");
include!("build_templates.rs");

fn main() {
    let folder = link_libtorch();
    println!("cargo:rustc-env=GYMKHANA_LIBTORCH={folder}");
    println!("cargo:rustc-env=GYMKHANA_LIBTORCH_VERSION={LIBTORCH_VERSION}");
    embed_templates();
}
