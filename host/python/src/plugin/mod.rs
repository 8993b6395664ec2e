//! Loaded plugins: the class, its methods, its sources and its grants.

pub mod grants;
pub mod handle;
pub mod methods;
mod source;
