//! A plugin file: its name, manifest, kinds, capabilities and component interfaces, read without compiling it.

mod capability;
mod component;
mod component_error;
mod description;
mod manifest;
mod name;
mod quantity;
mod structure;

pub use capability::{Capability, Kind};
pub use component::{MANIFEST_SECTION, exports, imports, structure};
pub use component_error::{ComponentError, MAX_PLUGIN_BYTES};
pub use description::{
    Answered, ComponentDescription, EnvironmentDescription, ExampleEntry, FirstTask, FunctionDescription,
    MAX_DESCRIPTION_BYTES, OptionDescription, RewardDescription, SelfDescription, Speaker, SplitDescription,
    ToolDescription,
};
pub use manifest::{
    ContractError, ContractStamp, MANIFEST_MAGIC, MANIFEST_SCHEMA, Manifest, ManifestError, RewardRange,
    parse_manifest_section, read_manifest,
};
pub(crate) use name::is_valid_word;
pub use name::{Namespace, ParseNameError, ParseNamespaceError, PluginName};
pub use quantity::Quantity;
pub use structure::Structure;
