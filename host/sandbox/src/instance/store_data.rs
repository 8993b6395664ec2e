//! Host-side data of one live instance: memory limiter, log, console, random streams, clock and outbound client.

use std::sync::Arc;

use gymkhana_record::{LogLevel, Seed, Stream};
use wasmtime::Result;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;

use super::inner::InnerLink;
use super::memory::MemoryLimiter;
use super::panic_message::{PanicMessage, without_internals};
use super::timer::CallTimer;
use crate::Limits;
use crate::imports::assets::Assets;
use crate::imports::console::Console;
use crate::imports::log::{Log, LogLine, LogSink};
use crate::imports::outbound::Outbound;

/// Limit on handles of streams and pollables per instance; each uses host memory.
const MAX_HANDLES: usize = 1_000;

/// Virtual duration of one clock reading, in nanoseconds. A guest that polls the clock in a loop therefore progresses.
const READING: u64 = 1_000;

/// Host-side data of one live instance.
pub(crate) struct StoreData {
    pub memory: MemoryLimiter,
    pub log: Log,
    pub clock: Clock,
    pub random: RandomSource,
    pub handles: ResourceTable,
    /// Console output of this call; created at the first write.
    pub console: Option<Console>,
    /// WASI context; created when the guest first requests a file, a socket or its environment, which few guests do.
    pub wasi: Option<WasiCtx>,
    pub result_bytes: usize,
    pub log_bytes: usize,
    pub timer: Arc<CallTimer>,
    pub assets: Assets,
    /// Outbound client; `None` outside episodes, and between calls of a shared instance.
    pub outbound: Option<Arc<dyn Outbound>>,
    /// The environment inside, if this is an instance of a wrapper.
    pub inner: Option<InnerLink>,
}

impl StoreData {
    pub fn new(
        limits: &Limits,
        random: RandomSource,
        timer: &Arc<CallTimer>,
        assets: Assets,
        outbound: Option<Arc<dyn Outbound>>,
    ) -> Self {
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(MAX_HANDLES);
        Self {
            memory: MemoryLimiter::new(limits),
            log: Log::new(limits.log_bytes),
            clock: Clock::default(),
            random,
            handles,
            console: None,
            wasi: None,
            result_bytes: limits.result_bytes,
            log_bytes: limits.log_bytes,
            timer: Arc::clone(timer),
            assets,
            outbound,
            inner: None,
        }
    }

    /// Prepares one call: the `number`th advancing call, or an auxiliary call after it.
    pub fn begin_call(&mut self, call: &'static str, number: u64) {
        self.memory.begin_call();
        self.random.begin(call, number);
    }

    /// Adds an entry of the log interface, after the console lines that the guest completed before it.
    pub fn write_log(&mut self, level: LogLevel, message: String) {
        if let Some(console) = &self.console {
            let lines = console.take_complete();
            self.log_console(lines);
        }
        self.log.push(level, message);
    }

    /// Moves the remaining console lines of this call into the log.
    pub fn end_call(&mut self) {
        if let Some(console) = &self.console {
            let lines = console.take();
            self.log_console(lines);
        }
    }

    /// Moves the remaining console lines of a failed call into the log and returns the guest's account of the failure, if any.
    pub fn end_failed_call(&mut self) -> Option<PanicMessage> {
        let lines = self.console.as_ref().map(Console::take).unwrap_or_default();
        let words = PanicMessage::of(&lines, self.log.lines());
        self.log_console(lines);
        words
    }

    /// Passes the log of a call to its sink; without one it is dropped.
    pub fn pass_on_log(&mut self, sink: Option<&Arc<dyn LogSink>>) {
        let lines = self.log.take();
        if let Some(sink) = sink.filter(|_| !lines.is_empty()) {
            sink.write(lines);
        }
    }

    fn log_console(&mut self, lines: Vec<LogLine>) {
        let lines = without_internals(lines, self.log.lines());
        for line in lines.into_iter().filter(|line| !line.message.is_empty()) {
            self.log.push(line.level, line.message);
        }
    }

    /// Draws random bytes for the guest.
    pub fn random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let fits = usize::try_from(length).ok().filter(|length| *length <= self.result_bytes);
        let mut bytes = vec![0; fits.ok_or_else(|| wasmtime::Error::new(TooManyBytes(length)))?];
        self.random.stream().fill(&mut bytes);
        Ok(bytes)
    }
}

/// Virtual time, in nanoseconds since the episode began: a reading takes a microsecond, a sleep its length.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock(pub u64);

impl Clock {
    /// Returns the time and advances it by one reading.
    pub fn read(&mut self) -> u64 {
        let now = self.0;
        self.advance(READING);
        now
    }

    pub fn advance(&mut self, nanoseconds: u64) {
        self.0 = self.0.saturating_add(nanoseconds);
    }
}

/// Random streams of an episode: one per call, so that the draws of a call do not shift those of another.
#[derive(Debug)]
pub(crate) struct RandomSource {
    seed: Seed,
    /// Seed at instantiation, from which the guest may have drawn the keys of its hash tables.
    first_seed: Seed,
    call: &'static str,
    number: u64,
    /// Created at the first draw of a call; few calls draw.
    stream: Option<Stream>,
}

impl RandomSource {
    pub fn new(seed: Seed) -> Self {
        Self { seed, first_seed: seed, call: "instantiate", number: 0, stream: None }
    }

    /// Sets the seed of the streams from the next call on.
    pub fn reseed(&mut self, seed: Seed) {
        self.seed = seed;
    }

    fn begin(&mut self, call: &'static str, number: u64) {
        self.call = call;
        self.number = number;
        self.stream = None;
    }

    /// Stream of the current call.
    pub fn stream(&mut self) -> &mut Stream {
        let Self { seed, call, number, stream, .. } = self;
        stream.get_or_insert_with(|| seed.child(*call).child(*number).stream())
    }

    /// Seed of hash tables; constant during the life of the instance, since the guest keeps it.
    pub fn hash_seed(&self) -> (u64, u64) {
        let mut stream = self.first_seed.child("hash").stream();
        (stream.bits(), stream.bits())
    }
}

/// Request of the guest for more bytes at once than its limit.
#[derive(Debug, thiserror::Error)]
#[error("the guest requested {0} bytes at once")]
pub(crate) struct TooManyBytes(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> StoreData {
        let timer = Arc::new(CallTimer::new());
        let mut data = StoreData::new(&Limits::default(), RandomSource::new(Seed(1)), &timer, Assets::default(), None);
        data.console = Some(Console::new(1000));
        data
    }

    fn write(data: &StoreData, level: LogLevel, text: &str) {
        data.console.as_ref().expect("a console").write(level, text.as_bytes());
    }

    fn messages(data: &StoreData) -> Vec<&str> {
        data.log.lines().iter().map(|line| line.message.as_str()).collect()
    }

    #[test]
    fn console_lines_and_log_entries_keep_their_order() {
        let mut data = data();
        write(&data, LogLevel::Info, "first\nunfin");
        data.write_log(LogLevel::Info, "second".to_owned());
        write(&data, LogLevel::Info, "ished\n");
        data.write_log(LogLevel::Debug, "fourth".to_owned());
        write(&data, LogLevel::Warn, "fifth");
        data.end_call();
        assert_eq!(messages(&data), ["first", "second", "unfinished", "fourth", "fifth"]);
    }

    #[test]
    fn an_authors_errors_stay_when_the_javascript_runtime_aborts() {
        let mut data = data();
        write(&data, LogLevel::Warn, "the author's own words\n");
        let uncaught = "Uncaught TypeError: x is undefined\n    at step (plugin.mjs:34)";
        data.write_log(LogLevel::Error, uncaught.to_owned());
        let runtime = "invalid variant tag value `undefined` (received `TypeError: x is undefined`) specified for `Error`\n\
                       Stack:\n  export_environment_0_1_0$step@/tmp/sources/initializer.js:1662:17\n\n\
                       Redirecting call to abort() to mozalloc_abort\n";
        write(&data, LogLevel::Warn, runtime);
        let said = "plugin.mjs:34 in step: TypeError: x is undefined";
        assert_eq!(data.end_failed_call(), Some(PanicMessage::Exception(said.to_owned())));
        assert_eq!(messages(&data), ["the author's own words", uncaught]);
    }
}
