//! Tests of the crate.

mod classes;
mod hostile;
mod language;
mod origins;
mod speed;
