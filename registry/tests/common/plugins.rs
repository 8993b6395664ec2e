//! Components assembled byte by byte from the binary format of the component model, independent of the code under test.
#![allow(dead_code, reason = "each test file uses some of these")]

use gymkhana_registry::contract;

/// Preamble of a core module.
pub const MODULE: &[u8] = b"\0asm\x01\0\0\0";
/// Preamble of a component.
pub const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// `length` in LEB128.
pub fn leb(mut length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        if length == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// A section: id, length, content.
pub fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], &leb(content.len())[..], content].concat()
}

fn named(name: &str) -> Vec<u8> {
    [&leb(name.len())[..], name.as_bytes()].concat()
}

/// A custom section.
pub fn custom(name: &str, content: &[u8]) -> Vec<u8> {
    section(0, &[&named(name)[..], content].concat())
}

/// A manifest section with this JSON.
pub fn manifest_section(json: &str) -> Vec<u8> {
    custom("gymkhana:manifest", &[b"GYMK", &(json.len() as u32).to_le_bytes()[..], json.as_bytes()].concat())
}

/// A core module nested in a component.
pub fn nested_module(sections: &[u8]) -> Vec<u8> {
    section(1, &[MODULE, sections].concat())
}

/// A component nested in a component.
pub fn nested_component(sections: &[u8]) -> Vec<u8> {
    section(4, &[COMPONENT, sections].concat())
}

/// An export of instance 0 under this name.
pub fn export(name: &str) -> Vec<u8> {
    section(11, &[&[1, 0], &named(name)[..], &[5, 0, 0]].concat())
}

/// An import of an instance of type 0 under this name.
pub fn import(name: &str) -> Vec<u8> {
    section(10, &[&[1, 0], &named(name)[..], &[5, 0]].concat())
}

/// A component with these sections.
pub fn component(sections: &[Vec<u8>]) -> Vec<u8> {
    [COMPONENT, &sections.concat()].concat()
}

/// The manifest of a tool built with the current contract.
pub fn manifest_json() -> String {
    format!(
        r#"{{"schema":1,"namespace":"gymkhana","name":"calculator","version":"0.1.0","kinds":["tool"],"contract":{{"version":"0.2.0","digest":"{}"}},"license":"Apache-2.0","description":"Exact arithmetic.","capabilities":["log"],"deterministic":true}}"#,
        contract::digest()
    )
}

/// A tool component: an import, the manifest in a nested module, an export.
pub fn tool(json: &str) -> Vec<u8> {
    component(&[
        import("gymkhana:plugin/log@0.2.0"),
        nested_module(&manifest_section(json)),
        export("gymkhana:plugin/tool@0.2.0"),
    ])
}
