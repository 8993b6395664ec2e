//! Imports that need no grant: `types`, `log`, `random` and `clock`.

use gymkhana_bindings::gymkhana::plugin::{clock, log, random, types};
use gymkhana_record::LogLevel;
use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker};

use crate::instance::store_data::StoreData;

/// Links them.
pub(super) fn link(linker: &mut Linker<StoreData>) -> Result<()> {
    types::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    log::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    random::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    clock::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)
}

impl types::Host for StoreData {}

impl log::Host for StoreData {
    fn write(&mut self, level: log::Level, message: String) -> Result<()> {
        let level = match level {
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        self.write_log(level, message);
        Ok(())
    }
}

impl random::Host for StoreData {
    fn next(&mut self) -> Result<u64> {
        Ok(self.random.stream().bits())
    }

    fn fill(&mut self, length: u32) -> Result<Vec<u8>> {
        self.random_bytes(u64::from(length))
    }
}

impl clock::Host for StoreData {
    fn now(&mut self) -> Result<u64> {
        Ok(self.clock.read())
    }
}
