//! The registry's formats and folder through their public interface.

#[path = "../common/mod.rs"]
mod common;
mod folder;
mod lock;
mod manifest;
mod properties;
mod rules;
mod signing;
mod structure;
