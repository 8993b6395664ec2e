//! First-party plugins and the conformance suite, as components.

mod asking;
mod authors;
mod booking;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod dataset;
mod games;
mod guests;
mod long_reader;
#[path = "../common/model.rs"]
mod model;
mod python_tool;
mod reward_sum;
mod rewards;
mod search;
mod sql;
mod text_to_sql;
