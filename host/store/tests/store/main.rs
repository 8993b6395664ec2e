//! The output directory through its public interface.

#[path = "../common/mod.rs"]
mod common;
mod documented;
mod episodes;
mod folder;
mod killed;
mod metrics;
mod reference;
