//! Inspection of a component's sections without compiling it.

use wasmparser::{ComponentExternalKind, ComponentTypeRef, Encoding, Parser, Payload};

use super::MANIFEST_SECTION;
use super::structure::{Quantity, Structure, StructureCounter, Visit};

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
        "the file is not WebAssembly\nhint: pass the `.wasm` file that `cargo build --target wasm32-wasip2` writes"
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
        /// Value found.
        value: u64,
        /// Largest allowed value.
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

/// Manifest sections and interface names found in a component.
#[derive(Debug, Default)]
pub(crate) struct ComponentInspection<'a> {
    /// Manifest sections of the component and of everything nested in it.
    pub manifests: Vec<&'a [u8]>,
    /// Interfaces that the outermost component exports.
    pub exports: Vec<&'a str>,
    /// Interfaces that the outermost component imports.
    pub imports: Vec<&'a str>,
    /// Quantities, all within their limits.
    pub structure: Structure,
}

impl<'a> ComponentInspection<'a> {
    /// Parses all section headers and refuses a component above a limit of its structure. Function bodies are skipped
    /// except for their locals; the engine validates them at compile time.
    pub fn of(bytes: &'a [u8]) -> Result<Self, ComponentError> {
        if bytes.is_empty() {
            return Err(ComponentError::Empty);
        }
        if bytes.len() > MAX_PLUGIN_BYTES {
            return Err(ComponentError::TooLarge);
        }
        if !bytes.starts_with(b"\0asm") {
            return Err(ComponentError::NotWebAssembly);
        }
        let damaged = |source: wasmparser::BinaryReaderError| ComponentError::Damaged {
            offset: source.offset(),
            length: bytes.len(),
            source,
        };
        let mut inspection = Self::default();
        let mut counter = StructureCounter::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(damaged)?;
            counter.visit(&payload).map_err(|failure| match failure {
                Visit::Damaged(source) => damaged(source),
                Visit::Refused(error) => error,
            })?;
            match payload {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                    return Err(ComponentError::CoreModule);
                }
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::CustomSection(section) if section.name() == MANIFEST_SECTION => {
                    inspection.manifests.push(section.data());
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        let export = export.map_err(damaged)?;
                        if export.kind == ComponentExternalKind::Instance {
                            inspection.exports.push(export.name.0);
                        }
                    }
                }
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        let import = import.map_err(damaged)?;
                        if matches!(import.ty, ComponentTypeRef::Instance(_)) {
                            inspection.imports.push(import.name.0);
                        }
                    }
                }
                _ => {}
            }
        }
        inspection.structure = counter.finish()?;
        Ok(inspection)
    }
}

/// Lists the interfaces that a component exports, such as `gymkhana:plugin/tool@0.1.0`.
///
/// # Errors
/// If the bytes are not a component.
pub fn exports(bytes: &[u8]) -> Result<Vec<String>, ComponentError> {
    Ok(owned(&ComponentInspection::of(bytes)?.exports))
}

/// Lists the interfaces that a component imports, such as `gymkhana:plugin/log@0.1.0`.
///
/// # Errors
/// If the bytes are not a component.
pub fn imports(bytes: &[u8]) -> Result<Vec<String>, ComponentError> {
    Ok(owned(&ComponentInspection::of(bytes)?.imports))
}

/// Counts the quantities of a component on which the cost of loading depends.
///
/// # Errors
/// If the bytes are not a component, or a quantity is above its limit.
pub fn structure(bytes: &[u8]) -> Result<Structure, ComponentError> {
    Ok(ComponentInspection::of(bytes)?.structure)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
