//! The plugin file of a server: a component without code that holds a manifest and the list of tools.
//!
//! The file goes wherever plugin files go: into the lock file by its digest, and into a run's folder. A component that
//! exports an empty instance under the name of the interface is the smallest file with the kind `tool`.

use gymkhana_registry::{Kind, MANIFEST_MAGIC, MANIFEST_SECTION, Manifest, contract};
use wasm_encoder::{Component, ComponentExportKind, ComponentExportSection, ComponentInstanceSection, CustomSection};
use wasmparser::{Parser, Payload};

/// Name of the custom section with the list of tools. It is the first section of the file.
pub(crate) const LIST_SECTION: &str = "gymkhana:mcp-tools";

/// The component with this manifest and this list, a JSON text.
pub(crate) fn encode(manifest: &Manifest, list: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let json = serde_json::to_vec(manifest)?;
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX).to_le_bytes();
    let framed = [&MANIFEST_MAGIC[..], &length, &json].concat();
    let mut instances = ComponentInstanceSection::new();
    instances.export_items(Vec::<(&str, ComponentExportKind, u32)>::new());
    let interface = format!("{}/{}@{}", contract::PACKAGE, Kind::Tool, contract::VERSION);
    let mut exports = ComponentExportSection::new();
    exports.export(&*interface, ComponentExportKind::Instance, 0, None);
    let mut component = Component::new();
    component.section(&CustomSection { name: LIST_SECTION.into(), data: list.into() });
    component.section(&CustomSection { name: MANIFEST_SECTION.into(), data: framed.into() });
    component.section(&instances).section(&exports);
    Ok(component.finish())
}

/// The list in a component of [`encode`]; `None` for other files.
pub(crate) fn list_in(bytes: &[u8]) -> Option<&[u8]> {
    let mut payloads = Parser::new(0).parse_all(bytes);
    match (payloads.next()?.ok()?, payloads.next()?.ok()?) {
        (Payload::Version { .. }, Payload::CustomSection(section)) if section.name() == LIST_SECTION => {
            Some(section.data())
        }
        _ => None,
    }
}
