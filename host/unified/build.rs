//! Exists so that the dependencies of build scripts are selected.

fn main() {}
