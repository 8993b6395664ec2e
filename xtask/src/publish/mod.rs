//! Publishing: the version of a release, and the packages of the SDKs.

pub mod bindings;
pub mod package;
pub mod release;
pub mod wheel;
pub mod wheel_test;
