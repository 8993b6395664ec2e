//! WASI in a virtual form: language runtimes need it, and it leads nowhere.
//!
//! There is no file, no socket, no name lookup, no argument and no environment variable. Random bytes come from the
//! episode's seed. The clocks are virtual: a sleep ends at once and moves them on, since nothing may wait inside the
//! host, where no epoch interrupts it. What is written to the console goes to the log.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::p2::bindings::{cli, clocks, random};
use wasmtime_wasi::p2::{DynOutputStream, DynPollable, OutputStream, Pollable, StreamResult, subscribe};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_io::bytes::Bytes;

use crate::log::{LogLevel, LogLine};
use crate::state::State;

/// When every episode begins by the wall clock: 2000-01-01T00:00:00Z, in seconds of Unix time.
const EPOCH_SECONDS: u64 = 946_684_800;

/// What a guest may write in one go, in bytes; it bounds what the host allocates for it.
const WRITE_PERMIT: usize = 4096;

/// Links everything, then puts the virtual forms over what would read the machine.
pub(crate) fn link(linker: &mut Linker<State>) -> Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    clocks::wall_clock::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    clocks::monotonic_clock::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    random::random::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    random::insecure::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    random::insecure_seed::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    cli::stdout::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    cli::stderr::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        // A context that nothing was put into has no file, no address, no argument, no variable and no input.
        let ctx = self.wasi.get_or_insert_with(|| WasiCtx::builder().build());
        WasiCtxView { ctx, table: &mut self.handles }
    }
}

impl clocks::wall_clock::Host for State {
    fn now(&mut self) -> Result<clocks::wall_clock::Datetime> {
        let now = self.clock.read();
        Ok(clocks::wall_clock::Datetime {
            seconds: EPOCH_SECONDS + now / 1_000_000_000,
            // A remainder of a thousand millions fits.
            nanoseconds: (now % 1_000_000_000) as u32,
        })
    }

    fn resolution(&mut self) -> Result<clocks::wall_clock::Datetime> {
        Ok(clocks::wall_clock::Datetime { seconds: 0, nanoseconds: 1 })
    }
}

impl clocks::monotonic_clock::Host for State {
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

/// A time that has come already.
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

impl random::random::Host for State {
    fn get_random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_random_u64(&mut self) -> Result<u64> {
        Ok(self.random.stream().bits())
    }
}

impl random::insecure::Host for State {
    fn get_insecure_random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_insecure_random_u64(&mut self) -> Result<u64> {
        Ok(self.random.stream().bits())
    }
}

impl random::insecure_seed::Host for State {
    fn insecure_seed(&mut self) -> Result<(u64, u64)> {
        Ok(self.random.hash_seed())
    }
}

impl cli::stdout::Host for State {
    fn get_stdout(&mut self) -> Result<Resource<DynOutputStream>> {
        self.console_stream(LogLevel::Info)
    }
}

impl cli::stderr::Host for State {
    fn get_stderr(&mut self) -> Result<Resource<DynOutputStream>> {
        self.console_stream(LogLevel::Warn)
    }
}

impl State {
    fn console_stream(&mut self, level: LogLevel) -> Result<Resource<DynOutputStream>> {
        let cap = self.log_bytes;
        let console = self.console.get_or_insert_with(|| Console::new(cap)).clone();
        let stream: DynOutputStream = Box::new(ConsoleStream { console, level });
        Ok(self.handles.push(stream)?)
    }
}

/// What a guest wrote to its console and nobody collected yet: the bytes of both streams, up to a cap.
#[derive(Debug, Clone)]
pub(crate) struct Console(Arc<Mutex<Written>>);

#[derive(Debug)]
struct Written {
    output: Vec<u8>,
    errors: Vec<u8>,
    cap: usize,
}

impl Console {
    fn new(cap: usize) -> Self {
        Self(Arc::new(Mutex::new(Written { output: Vec::new(), errors: Vec::new(), cap })))
    }

    fn write(&self, level: LogLevel, bytes: &[u8]) {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cap = written.cap;
        let stream = if level == LogLevel::Info { &mut written.output } else { &mut written.errors };
        let room = cap.saturating_sub(stream.len()).min(bytes.len());
        stream.extend_from_slice(&bytes[..room]);
    }

    /// The lines that were written since this was last asked: standard output, then standard error.
    pub fn take(&self) -> Vec<LogLine> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Written { output, errors, .. } = &mut *written;
        let mut lines = Vec::new();
        for (level, stream) in [(LogLevel::Info, output), (LogLevel::Warn, errors)] {
            let text = String::from_utf8_lossy(stream);
            lines.extend(text.lines().map(|line| LogLine { level, message: line.to_owned() }));
            stream.clear();
        }
        lines
    }
}

struct ConsoleStream {
    console: Console,
    level: LogLevel,
}

impl OutputStream for ConsoleStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.console.write(self.level, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_PERMIT)
    }
}

impl Pollable for ConsoleStream {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(ready(()))
    }
}
