//! Walks a component's sections, without compiling it.

use wasmparser::{ComponentExternalKind, ComponentTypeRef, Encoding, Parser, Payload};

use crate::MANIFEST_SECTION;

/// The largest plugin that is read, in bytes: 256 MiB. A Python interpreter with a computer algebra system takes 67.
pub const MAX_PLUGIN_BYTES: usize = 256 << 20;

/// Bytes are no component.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// There is no byte.
    #[error("the file is empty; build the plugin again with `cargo build --release --target wasm32-wasip2`")]
    Empty,
    /// More than [`MAX_PLUGIN_BYTES`].
    #[error("the file has more than {} MiB; build the plugin in release and leave data out of it", MAX_PLUGIN_BYTES >> 20)]
    TooLarge,
    /// The first bytes are not WebAssembly's.
    #[error("the file is not WebAssembly; give the `.wasm` file that `cargo build --target wasm32-wasip2` makes")]
    NotWebAssembly,
    /// WebAssembly, but not of the component model.
    #[error("the file is a core module, not a component; build for `wasm32-wasip2`, which gives a component")]
    CoreModule,
    /// The bytes end too early or break the format.
    #[error("the component is truncated or damaged at byte {offset} of {length}; build or download it again")]
    Damaged {
        /// Where it was seen.
        offset: usize,
        /// How many bytes there are.
        length: usize,
        /// What is wrong there.
        source: wasmparser::BinaryReaderError,
    },
}

/// What a walk over a component finds.
#[derive(Debug, Default)]
pub(crate) struct Scan<'a> {
    /// The manifest sections, in the component and in everything nested in it.
    pub manifests: Vec<&'a [u8]>,
    /// The interfaces that the component itself exports.
    pub exports: Vec<&'a str>,
    /// The interfaces that the component itself imports.
    pub imports: Vec<&'a str>,
}

impl<'a> Scan<'a> {
    /// Walks over all sections. Function bodies are stepped over: the engine validates them when it compiles.
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
        let mut scan = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(damaged)? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                    return Err(ComponentError::CoreModule);
                }
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::CustomSection(section) if section.name() == MANIFEST_SECTION => {
                    scan.manifests.push(section.data());
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        let export = export.map_err(damaged)?;
                        if export.kind == ComponentExternalKind::Instance {
                            scan.exports.push(export.name.0);
                        }
                    }
                }
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        let import = import.map_err(damaged)?;
                        if matches!(import.ty, ComponentTypeRef::Instance(_)) {
                            scan.imports.push(import.name.0);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(scan)
    }
}

/// The names of the interfaces that a component exports, such as `gymkhana:plugin/tool@0.1.0`.
///
/// # Errors
/// If the bytes are no component.
pub fn exports(bytes: &[u8]) -> Result<Vec<String>, ComponentError> {
    Ok(owned(&Scan::of(bytes)?.exports))
}

/// The names of the interfaces that a component imports, such as `gymkhana:plugin/log@0.1.0`.
///
/// # Errors
/// If the bytes are no component.
pub fn imports(bytes: &[u8]) -> Result<Vec<String>, ComponentError> {
    Ok(owned(&Scan::of(bytes)?.imports))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
