//! The SDK for authors: its rules, bindings and package.

mod bindings;
mod component;
mod options;
mod package;
mod rules;
