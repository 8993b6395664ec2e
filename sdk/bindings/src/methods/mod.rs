//! Methods of the generated types: Rust allows them only in the crate that defines the types.

mod answer;
pub(crate) mod content;
mod error;
pub(crate) mod function;
mod score;
mod step;
mod trajectory;
