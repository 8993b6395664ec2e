//! The SDK for authors: its rules, components and package.

mod component;
mod options;
mod package;
mod rules;
