//! Names, versions, digests, manifests and lock files of plugins.
