//! Quantities of a component that have a limit.

use std::fmt;

/// A quantity of a component that has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Components inside of components.
    Nesting,
    /// Component and core instances, after expansion.
    Instances,
    /// Imports, exports, aliases, functions, instances and types of components, after expansion.
    Definitions,
    /// Functions of all modules.
    Functions,
    /// Bytes of the longest function.
    FunctionBytes,
    /// Local variables of the function with most.
    FunctionLocals,
    /// Local variables of all functions.
    Locals,
    /// Types of all components and modules.
    Types,
    /// Imports, exports and globals of all modules.
    ModuleItems,
    /// Data segments of all modules.
    DataSegments,
    /// Element segments of all modules.
    ElementSegments,
    /// Tables of all modules.
    Tables,
    /// Elements with which the tables of all instances begin.
    TableElements,
}

impl Quantity {
    /// All quantities.
    pub const ALL: [Self; 13] = [
        Self::Nesting,
        Self::Instances,
        Self::Definitions,
        Self::Functions,
        Self::FunctionBytes,
        Self::FunctionLocals,
        Self::Locals,
        Self::Types,
        Self::ModuleItems,
        Self::DataSegments,
        Self::ElementSegments,
        Self::Tables,
        Self::TableElements,
    ];

    /// Largest accepted value: about ten times that of the largest plugin that we build, whether Rust, C, CPython with
    /// SymPy, or SpiderMonkey.
    #[must_use]
    pub fn limit(self) -> u64 {
        match self {
            Self::Nesting => 10,
            Self::Instances => 1_000,
            Self::Definitions => 40_000,
            Self::Functions => 150_000,
            Self::FunctionBytes => 4 << 20,
            Self::FunctionLocals => 5_000,
            Self::Locals => 600_000,
            Self::Types => 15_000,
            Self::ModuleItems => 100_000,
            Self::DataSegments => 100_000,
            Self::ElementSegments => 100,
            Self::Tables => 20,
            Self::TableElements => 80_000,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nesting => "nesting depth",
            Self::Instances => "instances",
            Self::Definitions => "definitions",
            Self::Functions => "functions",
            Self::FunctionBytes => "bytes of one function",
            Self::FunctionLocals => "locals of one function",
            Self::Locals => "locals",
            Self::Types => "types",
            Self::ModuleItems => "imports, exports and globals of modules",
            Self::DataSegments => "data segments",
            Self::ElementSegments => "element segments",
            Self::Tables => "tables",
            Self::TableElements => "table elements",
        })
    }
}
