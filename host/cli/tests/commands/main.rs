//! Commands of `host` that do not run a stage: help, messages about mistakes, plugins, registries, models, tutorials.

mod authors;
#[path = "../common/mod.rs"]
mod common;
mod consent;
mod eval;
mod export;
mod generate;
mod help;
mod inspect;
mod libtorch;
mod machine;
mod mistakes;
mod models;
#[path = "../../../../registry/tests/common/plugins.rs"]
mod plugins;
mod remedies;
mod serve;
mod texts;
mod tutorials;
