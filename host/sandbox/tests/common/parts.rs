//! Parts appended to a real component, such as bombs and memories.

/// An unsigned number as WebAssembly encodes it.
fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = vec![];
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

fn read_leb(bytes: &[u8]) -> (usize, usize) {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0).expect("it ends") + 1;
    (bytes[..length].iter().rev().fold(0, |value, byte| (value << 7) | usize::from(byte & 0x7f)), length)
}

/// A section of a module or component.
pub fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

/// Number of the outermost component's sections with this id.
fn count(component: &[u8], wanted: u8) -> usize {
    let (mut at, mut found) = (8, 0);
    while at < component.len() {
        let (length, prefix) = read_leb(&component[at + 1..]);
        found += usize::from(component[at] == wanted);
        at += 1 + prefix + length;
    }
    found
}

/// The component with another component in it, which it instantiates.
pub fn with_component(component: &[u8], inner: &[u8]) -> Vec<u8> {
    let index = leb(count(component, 4));
    let instance = [&[1, 0][..], &index, &[0]].concat();
    [component, &section(4, inner), &section(5, &instance)].concat()
}

/// The component with a core module in it, which it instantiates.
pub fn with_module(component: &[u8], inner: &[u8]) -> Vec<u8> {
    let index = leb(count(component, 1));
    let instance = [&[1, 0][..], &index, &[0]].concat();
    [component, &section(1, inner), &section(2, &instance)].concat()
}

/// The component with a custom section of this size.
pub fn padded(component: &[u8], bytes: usize) -> Vec<u8> {
    let name = b"\x07padding";
    [component, &section(0, &[&name[..], &vec![0; bytes]].concat())].concat()
}

/// Components that instantiate the one inside of them `width` times, over `levels` levels.
pub fn nested(levels: u32, width: usize) -> Vec<u8> {
    let text = (0..levels).fold("(component)".to_owned(), |inner, _| {
        let inner = inner.replacen("(component", "(component $inner", 1);
        format!("(component {inner} {})", "(instance (instantiate $inner))".repeat(width))
    });
    wat::parse_str(text).expect("sound text")
}
