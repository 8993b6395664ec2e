//! Real components in the sandbox. Tests of the whole process are programs of their own.

mod bounded_loading;
mod budgets;
mod capabilities;
#[path = "../common/mod.rs"]
mod common;
mod hostile_results;
mod hostile_tool;
mod live;
mod loading;
#[path = "../common/parts.rs"]
mod parts;
mod sharing;
mod unsandboxed;
