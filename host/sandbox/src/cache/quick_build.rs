//! Slots of quick builds: compiled code of one build serves all builds that differ in their authors' files only.
//!
//! The SDKs write an author's files into a byte array of a bundled component, the slot
//! ([086](../../../../docs/explanation/decisions/086-quick-builds.md)). Compiled code holds the initial memory of a component
//! in a section without instructions. The code for other files is therefore the same code with another slot in that section.

use std::ops::Range;

use gymkhana_registry::Digest;
use memchr::memmem::find_iter;

/// Marks at the beginning of the slots of the SDKs of Python and JavaScript, with the sizes of the slots in bytes.
const KINDS: [(&[u8], usize); 2] = [(b"gymkhana:modules", 1 << 19), (b"gymkhana:bundle\n", 1 << 20)];

/// Byte of the part of a slot behind its content.
const FILLING: u8 = 0xa5;

/// Least number of these bytes in a slot that is recognised. Text that contains a mark has none.
const LEAST_FILLING: usize = 64;

/// Section of compiled code with the initial memory of a component.
const DATA_SECTION: &[u8] = b".rodata.wasm";

/// A component with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuickBuild<'a> {
    /// The mark, the length of the content, the content, the filling.
    bytes: &'a [u8],
    before: &'a [u8],
    after: &'a [u8],
}

impl<'a> QuickBuild<'a> {
    /// The slot in a component; `None` without one, or with several.
    pub fn find(component: &'a [u8]) -> Option<Self> {
        let place = only_slot(component)?;
        let (before, after) = (component.get(..place.start)?, component.get(place.end..)?);
        Some(Self { bytes: component.get(place)?, before, after })
    }

    /// Digest of the component without its slot: equal for builds that differ in the authors' files only.
    pub fn base(&self) -> Digest {
        let (before, after, bytes) = (Digest::of(self.before), Digest::of(self.after), self.bytes.len());
        Digest::of(format!("quick build\n{before}\n{bytes}\n{after}\n").as_bytes())
    }

    /// Writes the slot into compiled code of a component with the same [`QuickBuild::base`]; false if the code has not exactly
    /// one slot of this size in its data.
    pub fn fill(&self, code: &mut [u8]) -> bool {
        let place = || {
            let section = data_section(code)?;
            let place = only_slot(code.get(section.clone())?)?;
            Some(section.start + place.start..section.start + place.end)
        };
        // Instructions are never written: the section has none.
        match place().and_then(|place| code.get_mut(place)) {
            Some(slot) if slot.len() == self.bytes.len() => {
                slot.copy_from_slice(self.bytes);
                true
            }
            _ => false,
        }
    }
}

/// Place of the only slot in these bytes.
fn only_slot(bytes: &[u8]) -> Option<Range<usize>> {
    let mut slots = KINDS.iter().flat_map(|&(mark, size)| {
        let places = find_iter(bytes, mark).map(move |start| start..start + size);
        places.filter(move |place| is_slot(bytes.get(place.clone()), mark))
    });
    let first = slots.next()?;
    slots.next().is_none().then_some(first)
}

/// Whether bytes that begin with a mark are a slot with content.
fn is_slot(bytes: Option<&[u8]>, mark: &[u8]) -> bool {
    let filling = || {
        let (length, rest) = bytes?.get(mark.len()..)?.split_first_chunk()?;
        rest.get(usize::try_from(u32::from_le_bytes(*length)).ok()?..)
    };
    filling().is_some_and(|filling| filling.len() >= LEAST_FILLING && filling.iter().all(|byte| *byte == FILLING))
}

/// Section of compiled code, an ELF file of 64 bits in little endian, with the initial memory; `None` without one.
fn data_section(code: &[u8]) -> Option<Range<usize>> {
    let number = |place: usize, bytes: usize| {
        let mut value = [0; 8];
        value.get_mut(..bytes)?.copy_from_slice(code.get(place..place.checked_add(bytes)?)?);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    let (headers, size) = (number(0x28, 8)?, number(0x3a, 2)?);
    let (count, names) = (number(0x3c, 2)?, number(0x3e, 2)?);
    let header = |index: usize| headers.checked_add(index.checked_mul(size)?);
    // Of a header: the place of its name among the names, and the place and length of its section.
    let names = number(header(names)?.checked_add(0x18)?, 8)?;
    let section = |index: usize| {
        let header = header(index)?;
        let name = code.get(names.checked_add(number(header, 4)?)?..)?;
        let start = number(header.checked_add(0x18)?, 8)?;
        let range = start..start.checked_add(number(header.checked_add(0x20)?, 8)?)?;
        let is_data = name.strip_prefix(DATA_SECTION).is_some_and(|rest| rest.first() == Some(&0));
        (is_data && range.end <= code.len()).then_some(range)
    };
    let mut sections = (0..count).filter_map(section);
    let first = sections.next()?;
    sections.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    use wasmtime::component::{Component, Linker};
    use wasmtime::{Engine, Store};

    use crate::engine::code_form::{CodeForm, Weight, code_config};
    use crate::{CompilerEffort, ProcessOwner, Sandbox, SandboxConfig};

    const MARK: &[u8] = KINDS[0].0;
    const SIZE: usize = KINDS[0].1;

    fn slot(content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        let mut slot = [MARK, &length, content].concat();
        slot.resize(SIZE, FILLING);
        slot
    }

    /// A component that returns the byte of its slot at a place.
    fn component(content: &[u8]) -> Vec<u8> {
        let data: String = slot(content).iter().map(|byte| format!("\\{byte:02x}")).collect();
        let text = format!(
            r#"(component
                (core module $module
                    (memory 16)
                    (data (i32.const 4096) "{data}")
                    (func (export "get") (param i32) (result i32) (i32.load8_u offset=4096 (local.get 0))))
                (core instance $instance (instantiate $module))
                (func (export "get") (param "place" u32) (result u32) (canon lift (core func $instance "get"))))"#
        );
        wat::parse_str(text).unwrap()
    }

    fn engine() -> Engine {
        let (effort, owner) = (CompilerEffort::Quick, ProcessOwner::Host);
        Engine::new(&code_config(CodeForm { weight: Weight::Heavy, effort, count_fuel: false, owner })).unwrap()
    }

    /// Bytes of the slot at these places, in an instance of compiled code.
    fn read(engine: &Engine, code: &[u8], places: &[usize]) -> Vec<u32> {
        // SAFETY: the compiler made it in this test, and only data were changed.
        let component = unsafe { Component::deserialize(engine, code) }.unwrap();
        let mut store = Store::new(engine, ());
        store.set_epoch_deadline(1);
        let instance = Linker::new(engine).instantiate(&mut store, &component).unwrap();
        let get = instance.get_typed_func::<(u32,), (u32,)>(&mut store, "get").unwrap();
        let byte = |place: &usize| get.call(&mut store, (u32::try_from(*place).unwrap(),)).unwrap().0;
        places.iter().map(byte).collect()
    }

    #[test]
    fn code_of_one_build_serves_another_one() {
        let (one, other) = (component(b"first"), component(b"second, longer"));
        let (from, to) = (QuickBuild::find(&one).unwrap(), QuickBuild::find(&other).unwrap());
        assert_eq!(from.base(), to.base());
        let engine = engine();
        let mut code = engine.precompile_component(&one).unwrap();
        let places = [0, MARK.len(), MARK.len() + 4, MARK.len() + 17, MARK.len() + 18, SIZE - 1];
        let bytes = |text: &[u8; 6]| text.map(u32::from).to_vec();
        assert_eq!(read(&engine, &code, &places), bytes(b"g\x05f\xa5\xa5\xa5"));
        assert!(to.fill(&mut code));
        assert_eq!(read(&engine, &code, &places), bytes(b"g\x0esr\xa5\xa5"));
        // And back again: the code is that of a build with other files, whichever was compiled.
        assert!(from.fill(&mut code));
        assert_eq!(code, engine.precompile_component(&one).unwrap());
    }

    /// Adds a custom section to a component, so that it is as large as one with a language runtime.
    fn large(mut component: Vec<u8>) -> Vec<u8> {
        let length = 9_u32 << 20;
        let parts = [0, 7, 14, 21].map(|shift| u8::try_from(length >> shift & 0x7f).unwrap() | 0x80);
        component.extend([&[0], parts.as_slice(), &[0]].concat());
        // The name of the section is empty, and its length the first of these bytes.
        component.resize(component.len() + length as usize, 0);
        component
    }

    /// Counts of compilations and of components from the cache after builds were loaded in this order.
    fn counts(effort: CompilerEffort, builds: &[&[u8]]) -> (u64, u64) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Some(folder.path().join("compiled"));
        let config = SandboxConfig { cache, effort, max_instances: Some(2), ..SandboxConfig::default() };
        let sandbox = Sandbox::new(&config).unwrap();
        for build in builds {
            let build = large(component(build));
            sandbox.compile(Digest::of(&build), "acme/p 1.0.0", &build).ok().unwrap();
        }
        let counters = sandbox.counters();
        (counters.compiled, counters.cache_hits)
    }

    #[test]
    fn a_sandbox_compiles_the_base_of_quick_builds_once() {
        let builds = [b"one".as_slice(), b"another", b"a third"];
        assert_eq!(counts(CompilerEffort::Quick, &builds), (1, 2));
        // Code of runs belongs to one component.
        assert_eq!(counts(CompilerEffort::Optimised, &builds), (3, 0));
    }

    #[test]
    fn other_components_have_another_base() {
        let around = |before: &[u8], after: &[u8]| [before, &slot(b"a"), after].concat();
        let base = |component: &[u8]| QuickBuild::find(component).unwrap().base();
        assert_eq!(base(&around(b"x", b"y")), base(&[b"x", &slot(b"b")[..], b"y"].concat()));
        let bases =
            [around(b"x", b"y"), around(b"z", b"y"), around(b"x", b"z"), around(b"xy", b""), around(b"", b"xy")];
        let bases: std::collections::BTreeSet<_> = bases.iter().map(|each| base(each).to_string()).collect();
        assert_eq!(bases.len(), 5);
    }

    #[test]
    fn what_is_not_a_slot_is_not_taken_for_one() {
        // A constant beside a slot is none.
        assert!(QuickBuild::find(&[MARK, b"\0\0\0\0 in code", &slot(b"a")].concat()).is_some());
        let torn = &slot(b"a")[..SIZE - 1];
        let empty = {
            let mut empty = MARK.to_vec();
            empty.resize(SIZE, FILLING);
            empty
        };
        let full = slot(&vec![b'x'; SIZE - MARK.len() - 4]);
        for other in [b"".as_slice(), MARK, torn, &empty, &full, &[slot(b"a"), slot(b"a")].concat()] {
            assert_eq!(QuickBuild::find(other), None, "{} bytes", other.len());
        }
    }

    #[test]
    fn instructions_are_never_overwritten() {
        let component = component(b"first");
        let other = slot(b"second");
        let other = QuickBuild::find(&other).unwrap();
        let code = engine().precompile_component(&component).unwrap();
        // The section has another name: the slot is elsewhere, such as among instructions.
        let mut renamed = code.clone();
        let place = find_iter(&code, DATA_SECTION).next().unwrap();
        renamed[place] = b'!';
        let before = renamed.clone();
        assert!(!other.fill(&mut renamed));
        assert_eq!(renamed, before);
        // Damaged files are left alone.
        for length in [0, 1, 0x3f, 0x40, code.len() / 2] {
            let mut cut = code[..length].to_vec();
            assert!(!other.fill(&mut cut), "{length} bytes");
            assert_eq!(cut, code[..length]);
        }
    }
}
