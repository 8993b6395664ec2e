//! Virtual WASI, required by language runtimes and without access to the machine.
//!
//! Files, sockets, name lookups, arguments and environment variables are empty. Random bytes come from the episode's
//! seed. The clocks are virtual: a sleep returns at once and advances them, since a wait inside the host could not be
//! interrupted by an epoch. Console output goes to the log.

use std::future::{Future, ready};
use std::pin::Pin;

use gymkhana_record::LogLevel;
use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::p2::bindings::{cli, clocks, random};
use wasmtime_wasi::p2::{DynOutputStream, DynPollable, Pollable, subscribe};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::console::{Console, ConsoleStream};
use crate::instance::store_data::StoreData;

/// Wall-clock time at the start of every episode: 2000-01-01T00:00:00Z, in seconds of Unix time.
const EPOCH_SECONDS: u64 = 946_684_800;

/// Links all of WASI, then shadows every interface that would read the machine with a virtual one.
pub(super) fn link(linker: &mut Linker<StoreData>) -> Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    clocks::wall_clock::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    clocks::monotonic_clock::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    random::random::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    random::insecure::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    random::insecure_seed::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    cli::stdout::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    cli::stderr::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl WasiView for StoreData {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        // The default context has no files, addresses, arguments, variables or input.
        let ctx = self.wasi.get_or_insert_with(|| WasiCtx::builder().build());
        WasiCtxView { ctx, table: &mut self.handles }
    }
}

impl clocks::wall_clock::Host for StoreData {
    fn now(&mut self) -> Result<clocks::wall_clock::Datetime> {
        let now = self.clock.read();
        Ok(clocks::wall_clock::Datetime {
            seconds: EPOCH_SECONDS + now / 1_000_000_000,
            // A remainder below 10^9 fits into 32 bits.
            nanoseconds: (now % 1_000_000_000) as u32,
        })
    }

    fn resolution(&mut self) -> Result<clocks::wall_clock::Datetime> {
        Ok(clocks::wall_clock::Datetime { seconds: 0, nanoseconds: 1 })
    }
}

impl clocks::monotonic_clock::Host for StoreData {
    fn now(&mut self) -> Result<u64> {
        Ok(self.clock.read())
    }

    fn resolution(&mut self) -> Result<u64> {
        Ok(1)
    }

    fn subscribe_instant(&mut self, when: u64) -> Result<Resource<DynPollable>> {
        self.subscribe_duration(when.saturating_sub(self.clock.0))
    }

    fn subscribe_duration(&mut self, duration: u64) -> Result<Resource<DynPollable>> {
        self.clock.advance(duration);
        let elapsed = self.handles.push(Elapsed)?;
        subscribe(&mut self.handles, elapsed)
    }
}

/// Pollable of a sleep, always ready.
struct Elapsed;

impl Pollable for Elapsed {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(ready(()))
    }
}

impl random::random::Host for StoreData {
    fn get_random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_random_u64(&mut self) -> Result<u64> {
        Ok(self.random.stream().bits())
    }
}

impl random::insecure::Host for StoreData {
    fn get_insecure_random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_insecure_random_u64(&mut self) -> Result<u64> {
        Ok(self.random.stream().bits())
    }
}

impl random::insecure_seed::Host for StoreData {
    fn insecure_seed(&mut self) -> Result<(u64, u64)> {
        Ok(self.random.hash_seed())
    }
}

impl cli::stdout::Host for StoreData {
    fn get_stdout(&mut self) -> Result<Resource<DynOutputStream>> {
        self.console_stream(LogLevel::Info)
    }
}

impl cli::stderr::Host for StoreData {
    fn get_stderr(&mut self) -> Result<Resource<DynOutputStream>> {
        self.console_stream(LogLevel::Warn)
    }
}

impl StoreData {
    fn console_stream(&mut self, level: LogLevel) -> Result<Resource<DynOutputStream>> {
        let cap = self.log_bytes;
        let console = self.console.get_or_insert_with(|| Console::new(cap)).clone();
        let stream: DynOutputStream = Box::new(ConsoleStream { console, level });
        Ok(self.handles.push(stream)?)
    }
}
