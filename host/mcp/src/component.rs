//! The plugin file of a server: a component without code that holds a manifest and the list of tools.
//!
//! The file goes wherever plugin files go: into the lock file by its digest, and into a run's folder. A component that
//! exports an empty instance under the name of the interface is the smallest file with the kind `tool`.

use gymkhana_registry::{Kind, MANIFEST_MAGIC, MANIFEST_SECTION, Manifest, contract};

/// Name of the custom section with the list of tools. It is the first section of the file.
const LIST_SECTION: &str = "gymkhana:mcp-tools";
/// Start of every component.
const PREAMBLE: [u8; 8] = *b"\0asm\x0d\0\x01\0";
/// Number of a custom section.
const CUSTOM: u8 = 0;
/// Number of the section of instances.
const INSTANCES: u8 = 5;
/// Number of the section of exports.
const EXPORTS: u8 = 11;

/// The component with this manifest and this list, a JSON text.
pub(crate) fn encode(manifest: &Manifest, list: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let json = serde_json::to_vec(manifest)?;
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX).to_le_bytes();
    let framed = [&MANIFEST_MAGIC[..], &length, &json].concat();
    let mut bytes = PREAMBLE.to_vec();
    section(&mut bytes, CUSTOM, &named(LIST_SECTION, list));
    section(&mut bytes, CUSTOM, &named(MANIFEST_SECTION, &framed));
    // One instance, made of no exports.
    section(&mut bytes, INSTANCES, &[1, 1, 0]);
    let interface = format!("{}/{}@{}", contract::PACKAGE, Kind::Tool, contract::VERSION);
    // One export: a plain name, the sort `instance`, index 0, no type.
    let export = [&[1, 0][..], &named(&interface, &[5, 0, 0])].concat();
    section(&mut bytes, EXPORTS, &export);
    Ok(bytes)
}

/// The list in a component of [`encode`]; `None` for other files.
pub(crate) fn list_in(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(&PREAMBLE)?.strip_prefix(&[CUSTOM])?;
    let (size, rest) = read_number(rest)?;
    let (length, content) = read_number(rest.get(..size)?)?;
    (content.get(..length)? == LIST_SECTION.as_bytes()).then(|| &content[length..])
}

fn section(bytes: &mut Vec<u8>, number: u8, content: &[u8]) {
    bytes.push(number);
    push_number(bytes, content.len());
    bytes.extend_from_slice(content);
}

/// A name with its length in front, and what follows it.
fn named(name: &str, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + rest.len() + 5);
    push_number(&mut bytes, name.len());
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

/// Adds a number as unsigned LEB128.
fn push_number(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads an unsigned LEB128 number of at most 32 bits.
fn read_number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0_usize;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        number |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}
