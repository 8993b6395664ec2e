//! Host functions that guests import: WASI in a virtual form, and the interfaces of the contract.

pub(crate) mod assets;
pub(crate) mod console;
mod free;
mod granted;
mod inner;
pub(crate) mod log;
pub(crate) mod outbound;
mod wasi;

use wasmtime::Result;
use wasmtime::component::Linker;

use crate::instance::store_data::StoreData;

/// Links all imports; the grants of a plugin are checked before it is compiled.
pub(crate) fn link(linker: &mut Linker<StoreData>) -> Result<()> {
    wasi::link(linker)?;
    free::link(linker)?;
    granted::link(linker)?;
    inner::link(linker)
}
