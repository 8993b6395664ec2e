//! Tests of the crate.

mod language;
