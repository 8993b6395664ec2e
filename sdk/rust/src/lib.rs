//! Write environments, tools and rewards for Gymkhana.
//!
//! An author implements [`environment::Environment`], [`tool::Tool`] or [`reward::Reward`], names the
//! implementation in one [`plugin!`] call, and builds with `cargo build --target wasm32-wasip2 --release`: the
//! `.wasm` file is a complete plugin, manifest included. The crate's type is `["cdylib", "rlib"]`, and its
//! `Cargo.toml` says who publishes it:
//!
//! ```toml
//! [package.metadata.gymkhana]
//! namespace = "your-name"
//! capabilities = []       # of "assets", "model", "tools", "http"; empty by default
//! deterministic = true    # the default: the same inputs give the same bytes
//! range = [0.0, 1.0]      # rewards only: the smallest and the largest total
//! ```
//!
//! The same crate is tested with plain `cargo test`: [`environment::Episode`], [`tool::Session`] and
//! [`reward::score`] run an implementation natively, with the same checks that a host meets.
//!
//! The SDK refuses to hide the contract: its records are the contract's own, with short constructors beside
//! them. What the SDK adds is the bookkeeping that every plugin would repeat: handles, options and their
//! checks, whose turn it is, and that an episode is over.

#[doc(hidden)]
pub mod bindings;
mod content;
pub mod environment;
mod error;
mod function;
mod handles;
mod hash;
mod imports;
mod options;
pub mod reward;
mod rng;
pub mod snapshot;
pub mod tool;

pub use bindings::imports::gymkhana::plugin::types::{
    Call, Content, Error, Function, Media, NamedValue, Part, Range, Task, Value,
};
pub use content::{named, text, text_of};
pub use function::Parameters;
pub use hash::hash;
pub use imports::{assets, clock, http, log, model, random, tools};
pub use options::{OptionInfo, Options};
pub use rng::Rng;

/// Makes a plugin of trait implementations; called once in a crate.
///
/// Each kind stands with the type that implements it and, in braces, the optional interfaces that the type
/// implements as well:
///
/// - `environment: Type { snapshot, state_key, privileged, oracle, guidance, render }`
/// - `tool: Type { snapshot, final_view }`
/// - `reward: Type`
///
/// A plugin may have several kinds, one of each. The macro reads the crate's `Cargo.toml` and stamps the
/// manifest into the component; a wrong or missing key is a compile error that shows the fix.
///
/// # Example
///
/// ```ignore
/// gymkhana_sdk::plugin! { environment: FrozenLake { snapshot, oracle } }
/// ```
pub use gymkhana_sdk_macros::plugin;
