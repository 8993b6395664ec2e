//! Modules that components share, such as the interpreter of Python: cut out of a component and compiled once.
//!
//! A component of componentize-py has the interpreter as a core module of its own, equal in all plugins, beside a module
//! with the initial memory. The component that remains imports the large modules without data, and the linker passes
//! their compiled form. The plugin's digest is that of the whole component
//! ([117](../../../docs/explanation/decisions/117-shared-runtimes.md)).

use std::collections::BTreeSet;
use std::ops::Range;

use gymkhana_registry::Digest;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    Component, ComponentImportSection, ComponentTypeRef, CoreTypeSection, EntityType, ModuleType, RawSection,
};
use wasmparser::{BinaryReader, ExternalKind, Instance, InstanceSectionReader, Parser, Payload, TypeRef};

/// Least size of a module that is cut out, in bytes. Smaller ones compile in milliseconds.
const LEAST_BYTES: usize = 64 << 10;

/// Header of a component or module, in bytes.
const HEADER: usize = 8;

/// First bytes of a core module.
pub(crate) const MODULE_HEADER: [u8; HEADER] = *b"\0asm\x01\0\0\0";

/// Sections of a component, by their numbers in the binary format.
const MODULE: u8 = 1;
const INSTANCE: u8 = 2;
const CORE_TYPE: u8 = 3;
const COMPONENT: u8 = 4;

/// A component with modules that can be cut out.
#[derive(Debug)]
pub(crate) struct SplitComponent<'a> {
    bytes: &'a [u8],
    sections: Vec<Section>,
    /// Number of memories and of tables that an instance has.
    pub needs: [u32; 2],
}

/// A section of the component.
#[derive(Debug)]
struct Section {
    number: u8,
    /// Place of its content.
    content: Range<usize>,
    /// Digest of a module that is cut out.
    cut: Option<Digest>,
}

/// What decides about a core module.
struct Shape {
    memories: u32,
    tables: u32,
    has_data: bool,
}

impl<'a> SplitComponent<'a> {
    /// The modules to cut out of a component; `None` if there are none, or the component has a form in which they cannot
    /// be.
    pub fn find(bytes: &'a [u8]) -> Option<Self> {
        let mut sections = sections(bytes)?;
        // An import of a module needs a type, which would move the indices of others.
        if sections.iter().any(|section| section.number == CORE_TYPE) {
            return None;
        }
        let (mut shapes, mut seen) = (Vec::new(), BTreeSet::new());
        for section in &mut sections {
            let content = bytes.get(section.content.clone())?;
            match section.number {
                MODULE => {
                    let shape = Shape::of(content)?;
                    let is_cut = content.len() >= LEAST_BYTES && !shape.has_data && shape.memories == 0;
                    // A second import could not have the same name.
                    section.cut = is_cut.then(|| Digest::of(content)).filter(|digest| seen.insert(*digest));
                    shapes.push(shape);
                }
                // Its instances would count too.
                COMPONENT if memchr::memmem::find(content, &MODULE_HEADER).is_some() => return None,
                _ => {}
            }
        }
        if seen.is_empty() {
            return None;
        }
        let needs = needs(bytes, &sections, &shapes)?;
        Some(Self { bytes, sections, needs })
    }

    /// The modules, with their digests.
    pub fn modules(&self) -> impl Iterator<Item = (Digest, &'a [u8])> {
        let cut = |section: &Section| Some((section.cut?, self.bytes.get(section.content.clone())?));
        self.sections.iter().filter_map(cut)
    }

    /// Digest under which the code of the component that remains is kept.
    pub fn key(component: Digest) -> Digest {
        Digest::of(format!("component without shared modules\n{component}\n").as_bytes())
    }

    /// The component that imports the modules; `None` if a module has a type that cannot be imported.
    pub fn remaining(&self) -> Option<Vec<u8>> {
        let mut component = Component::new();
        let mut types = 0;
        for section in &self.sections {
            let data = self.bytes.get(section.content.clone())?;
            let Some(digest) = section.cut else {
                component.section(&RawSection { id: section.number, data });
                continue;
            };
            let mut core = CoreTypeSection::new();
            core.ty().module(&module_type(data)?);
            let mut import = ComponentImportSection::new();
            import.import(import_name(digest), ComponentTypeRef::Module(types));
            component.section(&core).section(&import);
            types += 1;
        }
        Some(component.finish())
    }
}

/// Name by which a component imports a module.
pub(crate) fn import_name(module: Digest) -> String {
    format!("module-m{module}")
}

/// The sections of a component.
fn sections(bytes: &[u8]) -> Option<Vec<Section>> {
    let mut reader = BinaryReader::new(bytes.get(HEADER..)?, HEADER);
    let mut sections = Vec::new();
    while !reader.eof() {
        let number = reader.read_u8().ok()?;
        let length = usize::try_from(reader.read_var_u32().ok()?).ok()?;
        let start = reader.original_position();
        reader.read_bytes(length).ok()?;
        sections.push(Section { number, content: start..start + length, cut: None });
    }
    Some(sections)
}

/// Memories and tables of an instance of the component: those of each instance of a module.
fn needs(bytes: &[u8], sections: &[Section], shapes: &[Shape]) -> Option<[u32; 2]> {
    let mut needs = [0_u32; 2];
    for section in sections.iter().filter(|section| section.number == INSTANCE) {
        let reader = BinaryReader::new(bytes.get(section.content.clone())?, section.content.start);
        for instance in InstanceSectionReader::new(reader).ok()? {
            if let Instance::Instantiate { module_index, .. } = instance.ok()? {
                let shape = shapes.get(usize::try_from(module_index).ok()?)?;
                needs = [needs[0].checked_add(shape.memories)?, needs[1].checked_add(shape.tables)?];
            }
        }
    }
    Some(needs)
}

impl Shape {
    fn of(module: &[u8]) -> Option<Self> {
        let mut shape = Self { memories: 0, tables: 0, has_data: false };
        for payload in Parser::new(0).parse_all(module) {
            match payload.ok()? {
                Payload::MemorySection(section) => shape.memories = section.count(),
                Payload::TableSection(section) => shape.tables = section.count(),
                Payload::DataSection(section) => shape.has_data = section.count() > 0,
                _ => {}
            }
        }
        Some(shape)
    }
}

/// Type of a module: its imports and exports, with the indices of its own function types.
fn module_type(module: &[u8]) -> Option<ModuleType> {
    let (mut found, mut spaces) = (ModuleType::new(), Spaces::default());
    for payload in Parser::new(0).parse_all(module) {
        match payload.ok()? {
            Payload::TypeSection(section) => {
                for function in section.into_iter_err_on_gc_types() {
                    found.ty().func_type(&RoundtripReencoder.func_type(function.ok()?).ok()?);
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.ok()?;
                    let of = RoundtripReencoder.entity_type(import.ty).ok()?;
                    spaces.add(import.ty)?;
                    found.import(import.module, import.name, of);
                }
            }
            Payload::FunctionSection(section) => {
                section.into_iter().try_for_each(|of| spaces.add(TypeRef::Func(of.ok()?)))?;
            }
            Payload::TableSection(section) => {
                section.into_iter().try_for_each(|table| spaces.add(TypeRef::Table(table.ok()?.ty)))?;
            }
            Payload::MemorySection(section) => {
                section.into_iter().try_for_each(|memory| spaces.add(TypeRef::Memory(memory.ok()?)))?;
            }
            Payload::GlobalSection(section) => {
                section.into_iter().try_for_each(|global| spaces.add(TypeRef::Global(global.ok()?.ty)))?;
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.ok()?;
                    found.export(export.name, spaces.of(export.kind, export.index)?);
                }
            }
            _ => {}
        }
    }
    Some(found)
}

/// Types of what a module imports and defines, by index.
#[derive(Default)]
struct Spaces {
    functions: Vec<EntityType>,
    tables: Vec<EntityType>,
    memories: Vec<EntityType>,
    globals: Vec<EntityType>,
}

impl Spaces {
    fn add(&mut self, of: TypeRef) -> Option<()> {
        let space = match of {
            TypeRef::Func(_) => &mut self.functions,
            TypeRef::Table(_) => &mut self.tables,
            TypeRef::Memory(_) => &mut self.memories,
            TypeRef::Global(_) => &mut self.globals,
            TypeRef::FuncExact(_) | TypeRef::Tag(_) => return None,
        };
        space.push(RoundtripReencoder.entity_type(of).ok()?);
        Some(())
    }

    fn of(&self, kind: ExternalKind, index: u32) -> Option<EntityType> {
        let space = match kind {
            ExternalKind::Func => &self.functions,
            ExternalKind::Table => &self.tables,
            ExternalKind::Memory => &self.memories,
            ExternalKind::Global => &self.globals,
            ExternalKind::FuncExact | ExternalKind::Tag => return None,
        };
        space.get(usize::try_from(index).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use wasmtime::component::{Component as CompiledComponent, Linker};
    use wasmtime::{Engine, Module, Store};

    /// A runtime that adds what its memory, its global and its table of functions hold, and is long enough to be cut out.
    fn runtime(extra: &str) -> String {
        let filler: String = (0..9000).map(|number| format!("(func (drop (i32.const {number})))\n")).collect();
        format!(
            r#"(core module $runtime (@name "runtime")
                (type $get (func (result i32)))
                (import "env" "memory" (memory 1))
                (import "env" "table" (table 2 funcref))
                (import "env" "base" (global $base i32))
                (global $step (export "step") i32 (i32.const 100))
                (func (export "sum") (param i32) (result i32)
                    (i32.add
                        (i32.add (i32.load8_u (local.get 0)) (global.get $base))
                        (call_indirect (type $get) (i32.const 1))))
                {filler} {extra})"#
        )
    }

    fn component(runtime: &str, before: &str) -> Vec<u8> {
        let text = format!(
            r#"(component
                {before}
                (core module $main
                    (memory (export "memory") 1)
                    (table (export "table") 2 funcref)
                    (global (export "base") i32 (i32.const 1000))
                    (func $seven (result i32) (i32.const 7))
                    (elem (i32.const 1) $seven)
                    (data (i32.const 5) "\2a"))
                {runtime}
                (core instance $main (instantiate $main))
                (core instance $runtime (instantiate $runtime (with "env" (instance $main))))
                (func (export "sum") (param "place" u32) (result u32) (canon lift (core func $runtime "sum"))))"#
        );
        wat::parse_str(text).unwrap()
    }

    fn sum(engine: &Engine, linker: &Linker<()>, component: &[u8]) -> u32 {
        let component = CompiledComponent::new(engine, component).unwrap();
        let mut store = Store::new(engine, ());
        let instance = linker.instantiate(&mut store, &component).unwrap();
        let sum = instance.get_typed_func::<(u32,), (u32,)>(&mut store, "sum").unwrap();
        sum.call(&mut store, (5,)).unwrap().0
    }

    #[test]
    fn a_component_without_its_runtime_computes_the_same() {
        let (whole, engine) = (component(&runtime(""), ""), Engine::default());
        // 0x2a, the global and the function of the table.
        assert_eq!(sum(&engine, &Linker::new(&engine), &whole), 42 + 1000 + 7);
        let split = SplitComponent::find(&whole).expect("a runtime to cut out");
        assert_eq!(split.needs, [1, 1]);
        let modules: Vec<_> = split.modules().collect();
        assert_eq!(modules.len(), 1);
        let remaining = split.remaining().expect("what remains");
        assert!(remaining.len() + modules[0].1.len() < whole.len() + 1000 && remaining.len() < 2000);
        let mut linker = Linker::new(&engine);
        let module = Module::new(&engine, modules[0].1).unwrap();
        linker.root().module(&import_name(modules[0].0), &module).unwrap();
        assert_eq!(sum(&engine, &linker, &remaining), 42 + 1000 + 7);
    }

    #[test]
    fn what_cannot_be_shared_stays() {
        let is_split = |component: &[u8]| SplitComponent::find(component).is_some();
        assert!(is_split(&component(&runtime(""), "")));
        // Initial data belong to a plugin, and so does a small module.
        assert!(!is_split(&component(&runtime("(data (i32.const 9) \"own\")"), "")));
        let small = runtime("").split("(func (drop").next().unwrap().to_owned() + ")";
        assert!(!is_split(&component(&small, "")));
        // The indices of core types would move.
        assert!(!is_split(&component(&runtime(""), "(core type (module))")));
        // A nested component may have instances of its own.
        assert!(!is_split(&component(&runtime(""), "(component (core module))")));
        for damaged in [&b""[..], b"\0asm", &component(&runtime(""), "")[..70_000]] {
            assert!(!is_split(damaged), "{} bytes", damaged.len());
        }
    }

    #[test]
    fn the_same_module_is_imported_once() {
        let twice = runtime("") + &runtime("").replace("$runtime", "$again");
        let component = component(&twice, "");
        let split = SplitComponent::find(&component).expect("one of them");
        assert_eq!(split.modules().count(), 1);
        assert_eq!(split.needs, [1, 1]);
        let remaining = split.remaining().expect("what remains");
        wasmparser::Validator::new().validate_all(&remaining).expect("valid");
    }
}
