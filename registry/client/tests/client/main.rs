//! The client of registries against servers, folders, mirrors and OCI registries.

mod attacks;
mod bounds;
#[path = "../common/mod.rs"]
mod common;
mod consent;
mod contact;
mod limits;
mod oci;
mod pages;
mod revoked;
mod serving;
mod silent;
mod sources;
mod uploads;
