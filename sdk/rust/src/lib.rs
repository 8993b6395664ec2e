//! SDK for environments, tools and rewards of Gymkhana.
//!
//! Implement [`environment::Environment`], [`tool::Tool`], [`reward::Reward`] or [`wrapper::Wrapper`], name the implementation in one
//! [`plugin!`] call, and build with `cargo build --target wasm32-wasip2 --release`. The `.wasm` file is a complete
//! plugin, including its manifest. `Cargo.toml` sets `crate-type = ["cdylib", "rlib"]` and the metadata of the
//! manifest:
//!
//! ```toml
//! [package.metadata.gymkhana]
//! namespace = "your-name"
//! capabilities = []       # any of "assets", "model", "tools", "http" (default: empty)
//! deterministic = true    # equal inputs give equal output bytes (default: true)
//! thoughts = false        # whether a reward reads the thoughts of seats (default: false)
//! range = [0.0, 1.0]      # rewards only: smallest and largest total
//! ```
//!
//! Test the same crate with `cargo test`: [`environment::Episode`], [`tool::Session`] and [`reward::score`] run an
//! implementation natively, with the checks that a component makes.
//!
//! The SDK exposes the contract's own records and adds short constructors. It implements what every plugin would
//! repeat: handles, validation of options, turn order and the end of an episode.

pub mod environment;
mod handles;
mod hash;
mod imports;
pub mod options;
pub mod reward;
mod rng;
pub mod snapshot;
pub mod tool;
pub mod wrapper;

#[doc(hidden)]
pub use gymkhana_sdk_bindings as bindings;
#[doc(inline)]
pub use gymkhana_sdk_bindings::{
    Call, Content, Error, Function, Media, NamedValue, Parameters, Part, Range, Task, Value, named, text, text_of,
};
pub use gymkhana_sdk_macros::{OptionValue, PluginOptions};
pub use hash::hash;
pub use imports::{assets, clock, http, log, model, random, tools};
pub use options::{Json, OptionValue, PluginOptions};
pub use rng::Rng;

/// Exports trait implementations as a plugin; call it once per crate.
///
/// Each kind is followed by the implementing type and, in braces, the optional interfaces that the type implements:
///
/// - `environment: Type { snapshot, state_key, privileged, oracle, guidance, render }`
/// - `tool: Type { snapshot, final_view }`
/// - `reward: Type`
/// - `wrapper: Type`, an environment around another one, with all optional interfaces of environments
///
/// A plugin may have several kinds, at most one of each. The macro reads the crate's `Cargo.toml` and embeds the
/// manifest in the component. A wrong or missing key is a compile error that suggests a fix.
///
/// # Example
///
/// ```ignore
/// gymkhana_sdk::plugin! { environment: FrozenLake { snapshot, oracle } }
/// ```
pub use gymkhana_sdk_macros::plugin;
