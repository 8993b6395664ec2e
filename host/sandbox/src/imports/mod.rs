//! Host functions that guests import: WASI in a virtual form, and the interfaces of the contract.

pub(crate) mod assets;
pub(crate) mod console;
mod granted;
mod inner;
pub(crate) mod log;
pub(crate) mod outbound;
mod wasi;

use gymkhana_record::LogLevel;
use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::gymkhana::plugin as contract;
use crate::instance::store_data::StoreData;

/// Links all imports; the grants of a plugin are checked before it is compiled.
pub(crate) fn link(linker: &mut Linker<StoreData>) -> Result<()> {
    wasi::link(linker)?;
    link_free(linker)?;
    granted::link(linker)?;
    inner::link(linker)
}

/// Links the imports that need no grant: `types`, `log`, `random` and `clock`.
fn link_free(linker: &mut Linker<StoreData>) -> Result<()> {
    contract::types::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    contract::log::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    contract::random::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    contract::clock::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)
}

impl contract::types::Host for StoreData {}

impl contract::log::Host for StoreData {
    fn write(&mut self, level: contract::log::Level, message: String) -> Result<()> {
        let level = match level {
            contract::log::Level::Debug => LogLevel::Debug,
            contract::log::Level::Info => LogLevel::Info,
            contract::log::Level::Warn => LogLevel::Warn,
            contract::log::Level::Error => LogLevel::Error,
        };
        self.write_log(level, message);
        Ok(())
    }
}

impl contract::random::Host for StoreData {
    fn next(&mut self) -> Result<u64> {
        Ok(self.random.stream().bits())
    }

    fn fill(&mut self, length: u32) -> Result<Vec<u8>> {
        self.random_bytes(u64::from(length))
    }
}

impl contract::clock::Host for StoreData {
    fn now(&mut self) -> Result<u64> {
        Ok(self.clock.read())
    }
}
