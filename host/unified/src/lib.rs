//! No code: the manifest names features of dependencies that all builds of the programs share.
