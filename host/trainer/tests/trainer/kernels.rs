//! The CUDA kernels on the processor, beside plain loops in double precision.

use std::path::Path;
use std::process::Command;

/// A small emulator runs the threads of a block one after the other between barriers.
#[test]
fn kernels_compute_what_plain_loops_compute() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("checks");
    let kernels = crate_folder.join("src/cuda/kernels.cu");
    let compiled = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()))
        .args(["-std=c++17", "-O1", "-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Werror"])
        .arg(format!("-DKERNELS_FILE=\"{}\"", kernels.display()))
        .arg(crate_folder.join("tests/trainer/kernels/checks.cpp"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("a C++ compiler, which the build of libtorch's binding needs too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let checked = Command::new(program).output().expect("the program starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
