//! Inspection of a component's sections without compiling it.

use wasmparser::{ComponentExternalKind, ComponentTypeRef, Encoding, Parser, Payload};

use super::component_error::{ComponentError, MAX_PLUGIN_BYTES};
use super::structure::{Structure, StructureCounter, Visit};

/// Name of the custom section.
pub const MANIFEST_SECTION: &str = "gymkhana:manifest";

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
                            inspection.exports.push(export.name.name);
                        }
                    }
                }
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        let import = import.map_err(damaged)?;
                        if matches!(import.ty, ComponentTypeRef::Instance(_)) {
                            inspection.imports.push(import.name.name);
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

/// Lists the interfaces that a component exports, such as `gymkhana:plugin/tool@0.2.0`.
///
/// # Errors
/// If the bytes are not a component.
pub fn exports(bytes: &[u8]) -> Result<Vec<String>, ComponentError> {
    Ok(owned(&ComponentInspection::of(bytes)?.exports))
}

/// Lists the interfaces that a component imports, such as `gymkhana:plugin/log@0.2.0`.
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
