//! Structure of a component: the quantities on which the cost of loading depends, counted without expanding anything.
//!
//! An engine expands nested components: each instantiation repeats the definitions of the component that it
//! instantiates. Five levels of one hundred instantiations are 10^10 instances in 1,600 bytes. A definition precedes its
//! instantiations, so one pass suffices: the counts of a definition are complete at its end, and an instantiation adds
//! them, with saturating arithmetic.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, Encoding, FunctionBody,
    Instance, Payload,
};

use super::component_error::ComponentError;
use super::quantity::Quantity;

type Read<T> = Result<T, wasmparser::BinaryReaderError>;

/// Bytes of a WebAssembly page, as a power of two.
const PAGE_LOG2: u32 = 16;

/// Quantities of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Structure {
    values: [u64; Quantity::ALL.len()],
    /// Bytes with which the linear memories of all instances begin, after expansion.
    pub initial_memory: u64,
}

impl Structure {
    /// Value of a quantity.
    #[must_use]
    pub fn value(&self, quantity: Quantity) -> u64 {
        self.values[quantity as usize]
    }

    fn add(&mut self, quantity: Quantity, value: u64) {
        let sum = &mut self.values[quantity as usize];
        *sum = sum.saturating_add(value);
    }

    fn raise(&mut self, quantity: Quantity, value: u64) {
        let most = &mut self.values[quantity as usize];
        *most = value.max(*most);
    }

    /// Refuses a component with a quantity above its limit.
    fn check(&self) -> Result<(), ComponentError> {
        let above = |quantity: &Quantity| self.value(*quantity) > quantity.limit();
        Quantity::ALL.into_iter().find(above).map_or(Ok(()), |quantity| {
            let (value, limit) = (self.value(quantity), quantity.limit());
            Err(ComponentError::TooComplex { quantity, value, limit })
        })
    }
}

/// Costs of one instantiation of a definition, after expansion.
#[derive(Debug, Clone, Copy, Default)]
struct Expansion {
    instances: u64,
    definitions: u64,
    memory_bytes: u64,
    table_elements: u64,
}

impl Expansion {
    fn add(&mut self, other: Self) {
        self.instances = self.instances.saturating_add(other.instances);
        self.definitions = self.definitions.saturating_add(other.definitions);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
        self.table_elements = self.table_elements.saturating_add(other.table_elements);
    }

    fn define(&mut self, count: impl TryInto<u64>) {
        self.definitions = self.definitions.saturating_add(count.try_into().unwrap_or(u64::MAX));
    }
}

/// A component or module whose end has not been read. Definitions that come from outside, as an import or as another
/// instance's export, are `None`: their costs are unknown here.
#[derive(Debug, Default)]
struct StructureScope {
    is_component: bool,
    components: Vec<Option<Expansion>>,
    modules: Vec<Option<Expansion>>,
    own: Expansion,
}

/// Counts the quantities of a component, payload by payload.
#[derive(Debug, Default)]
pub(super) struct StructureCounter {
    scopes: Vec<StructureScope>,
    structure: Structure,
}

impl StructureCounter {
    /// Counts one payload of the parser.
    pub fn visit(&mut self, payload: &Payload<'_>) -> Result<(), Visit> {
        match payload {
            Payload::Version { encoding, .. } => {
                let is_component = *encoding == Encoding::Component;
                self.scopes.push(StructureScope { is_component, ..StructureScope::default() });
                self.structure.raise(Quantity::Nesting, self.scopes.len() as u64);
                // The scopes themselves take memory.
                self.structure.check()?;
            }
            Payload::End(_) => self.end(),
            Payload::CodeSectionEntry(body) => self.function(body)?,
            payload => match self.scopes.last().map(|scope| scope.is_component) {
                Some(true) => self.component(payload)?,
                Some(false) => self.module(payload)?,
                None => {}
            },
        }
        Ok(())
    }

    /// The structure, if every quantity is within its limit.
    pub fn finish(self) -> Result<Structure, ComponentError> {
        self.structure.check()?;
        Ok(self.structure)
    }

    /// Adds a complete definition to the index space of the enclosing component.
    fn end(&mut self) {
        let Some(StructureScope { is_component, own, .. }) = self.scopes.pop() else { return };
        match self.scopes.last_mut() {
            Some(parent) if is_component => parent.components.push(Some(own)),
            Some(parent) => parent.modules.push(Some(own)),
            None => {
                self.structure.add(Quantity::Instances, own.instances);
                self.structure.add(Quantity::Definitions, own.definitions);
                self.structure.add(Quantity::TableElements, own.table_elements);
                self.structure.initial_memory = own.memory_bytes;
            }
        }
    }

    fn component(&mut self, payload: &Payload<'_>) -> Result<(), Visit> {
        // An outer alias names a definition of an enclosing component, so it is resolved before the scope is borrowed.
        if let Payload::ComponentAliasSection(section) = payload {
            for alias in section.clone() {
                self.alias(&alias?)?;
            }
            return Ok(());
        }
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        match payload {
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    match instance? {
                        Instance::Instantiate { module_index, args } => {
                            scope.own.define(args.len());
                            scope.own.add(instantiated(&scope.modules, module_index)?);
                        }
                        Instance::FromExports(exports) => scope.own.define(exports.len()),
                    }
                    scope.own.add(ONE_INSTANCE);
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone() {
                    match instance? {
                        ComponentInstance::Instantiate { component_index, args } => {
                            scope.own.define(args.len());
                            scope.own.add(instantiated(&scope.components, component_index)?);
                        }
                        ComponentInstance::FromExports(exports) => scope.own.define(exports.len()),
                    }
                    scope.own.add(ONE_INSTANCE);
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    scope.own.define(1_u64);
                    scope.declare(import?.ty.kind(), None)?;
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone() {
                    let export = export?;
                    scope.own.define(1_u64);
                    let exported = scope.definition(export.kind, export.index);
                    scope.declare(export.kind, exported)?;
                }
            }
            Payload::ComponentCanonicalSection(section) => scope.own.define(section.count()),
            Payload::ComponentTypeSection(section) => {
                scope.own.define(section.count());
                self.structure.add(Quantity::Types, section.count().into());
            }
            Payload::CoreTypeSection(section) => self.structure.add(Quantity::Types, section.count().into()),
            _ => {}
        }
        Ok(())
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) -> Result<(), ComponentError> {
        let (kind, aliased) = match *alias {
            ComponentAlias::InstanceExport { kind, .. } => (Some(kind), None),
            ComponentAlias::CoreInstanceExport { .. } => (None, None),
            ComponentAlias::Outer { kind, count, index } => {
                let kind = match kind {
                    ComponentOuterAliasKind::CoreModule => Some(ComponentExternalKind::Module),
                    ComponentOuterAliasKind::Component => Some(ComponentExternalKind::Component),
                    ComponentOuterAliasKind::CoreType | ComponentOuterAliasKind::Type => None,
                };
                let outer = self.scopes.iter().rev().nth(count as usize);
                (kind, outer.zip(kind).and_then(|(outer, kind)| outer.definition(kind, index)))
            }
        };
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        scope.own.define(1_u64);
        kind.map_or(Ok(()), |kind| scope.declare(kind, aliased))
    }

    fn module(&mut self, payload: &Payload<'_>) -> Result<(), Visit> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        match payload {
            Payload::TypeSection(section) => self.structure.add(Quantity::Types, section.count().into()),
            Payload::ImportSection(section) => self.structure.add(Quantity::ModuleItems, section.count().into()),
            Payload::ExportSection(section) => self.structure.add(Quantity::ModuleItems, section.count().into()),
            Payload::GlobalSection(section) => self.structure.add(Quantity::ModuleItems, section.count().into()),
            Payload::FunctionSection(section) => self.structure.add(Quantity::Functions, section.count().into()),
            Payload::DataSection(section) => self.structure.add(Quantity::DataSegments, section.count().into()),
            Payload::ElementSection(section) => self.structure.add(Quantity::ElementSegments, section.count().into()),
            Payload::TableSection(section) => {
                for table in section.clone() {
                    self.structure.add(Quantity::Tables, 1);
                    scope.own.add(Expansion { table_elements: table?.ty.initial, ..Expansion::default() });
                }
            }
            Payload::MemorySection(section) => {
                for memory in section.clone() {
                    let memory = memory?;
                    let page = 1_u64.checked_shl(memory.page_size_log2.unwrap_or(PAGE_LOG2)).unwrap_or(u64::MAX);
                    scope
                        .own
                        .add(Expansion { memory_bytes: memory.initial.saturating_mul(page), ..Expansion::default() });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn function(&mut self, body: &FunctionBody<'_>) -> Read<()> {
        let mut locals = 0_u64;
        for group in body.get_locals_reader()? {
            locals = locals.saturating_add(group?.0.into());
        }
        self.structure.raise(Quantity::FunctionBytes, body.range().len() as u64);
        self.structure.raise(Quantity::FunctionLocals, locals);
        self.structure.add(Quantity::Locals, locals);
        Ok(())
    }
}

/// An instance without what it instantiates.
const ONE_INSTANCE: Expansion = Expansion { instances: 1, definitions: 1, memory_bytes: 0, table_elements: 0 };

impl StructureScope {
    /// Definition of a component or module in this scope, if its costs are known.
    fn definition(&self, kind: ComponentExternalKind, index: u32) -> Option<Expansion> {
        let space = match kind {
            ComponentExternalKind::Component => &self.components,
            ComponentExternalKind::Module => &self.modules,
            _ => return None,
        };
        space.get(index as usize).copied().flatten()
    }

    /// Appends to the index space of a kind; others than components and modules are not followed. The space is bounded
    /// here, since an entry is larger than its four bytes in the file.
    fn declare(&mut self, kind: ComponentExternalKind, definition: Option<Expansion>) -> Result<(), ComponentError> {
        let space = match kind {
            ComponentExternalKind::Component => &mut self.components,
            ComponentExternalKind::Module => &mut self.modules,
            _ => return Ok(()),
        };
        let (quantity, value) = (Quantity::Definitions, space.len() as u64 + 1);
        if value > quantity.limit() {
            return Err(ComponentError::TooComplex { quantity, value, limit: quantity.limit() });
        }
        space.push(definition);
        Ok(())
    }
}

/// Costs of the definition that is instantiated.
fn instantiated(space: &[Option<Expansion>], index: u32) -> Result<Expansion, ComponentError> {
    space.get(index as usize).copied().flatten().ok_or(ComponentError::OutsideDefinition)
}

/// Failure of a visit.
pub(super) enum Visit {
    /// The payload cannot be read.
    Damaged(wasmparser::BinaryReaderError),
    /// The component is refused.
    Refused(ComponentError),
}

impl From<wasmparser::BinaryReaderError> for Visit {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Damaged(error)
    }
}

impl From<ComponentError> for Visit {
    fn from(error: ComponentError) -> Self {
        Self::Refused(error)
    }
}
