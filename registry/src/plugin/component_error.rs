//! Reasons to refuse a component.

use super::quantity::Quantity;

/// Size limit of a plugin file in bytes (256 MiB). CPython with a computer algebra system needs 67 MiB.
pub const MAX_PLUGIN_BYTES: usize = 256 << 20;

/// The bytes are not a WebAssembly component.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// Zero bytes.
    #[error("the file is empty\nhint: rebuild the plugin with `cargo build --release --target wasm32-wasip2`")]
    Empty,
    /// More than [`MAX_PLUGIN_BYTES`].
    #[error(
        "the file is larger than {} MiB\nhint: build the plugin in release mode and move data out of it",
        MAX_PLUGIN_BYTES >> 20
    )]
    TooLarge,
    /// The file lacks the WebAssembly magic number.
    #[error(
        "the file is not WebAssembly\nhint: give a plugin's folder, or the `.wasm` file that `host plugin build` writes"
    )]
    NotWebAssembly,
    /// A core module.
    #[error("the file is a core module, not a component\nhint: build for `wasm32-wasip2`, which produces a component")]
    CoreModule,
    /// More than [`Quantity::limit`].
    #[error(
        "the component is too complex, {quantity}: {value} of at most {limit}\nhint: build it again with the \
         SDK's tools; the plugin contract lists the limits of components"
    )]
    TooComplex {
        /// Quantity above its limit.
        quantity: Quantity,
        /// Its value.
        value: u64,
        /// Its limit.
        limit: u64,
    },
    /// Instantiates a component or module that another party provides, so that its size is unknown.
    #[error(
        "the component instantiates a component or module that it does not define itself\nhint: put all parts of the \
         plugin into one component"
    )]
    OutsideDefinition,
    /// Truncated or malformed sections.
    #[error("the component is truncated or damaged at byte {offset} of {length}\nhint: rebuild or download it again")]
    Damaged {
        /// Byte offset of the error.
        offset: usize,
        /// File size in bytes.
        length: usize,
        /// Parser error.
        source: wasmparser::BinaryReaderError,
    },
}
