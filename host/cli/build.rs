//! Links libtorch, passes its folder and version to `host`, and embeds the templates of new plugins.

include!("../trainer/build_libtorch.rs");
include!("build_templates.rs");

fn main() {
    let folder = link_libtorch();
    println!("cargo:rustc-env=GYMKHANA_LIBTORCH={folder}");
    println!("cargo:rustc-env=GYMKHANA_LIBTORCH_VERSION={LIBTORCH_VERSION}");
    embed_templates();
}
