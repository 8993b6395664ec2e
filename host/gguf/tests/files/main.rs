//! Files that the package gguf wrote (`tests/reference/make_gguf_goldens.py`), and damaged ones.
#![allow(clippy::unwrap_used, reason = "a test")]

mod builder;
mod damaged;
mod goldens;
mod unsupported;
