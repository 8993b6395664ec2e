//! What the host keeps for one live plugin: its memory account, its log, its random streams and its clock.

use std::sync::Arc;

use gymkhana_record::{Seed, Stream};
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime::{ResourceLimiter, Result};
use wasmtime_wasi::WasiCtx;

use crate::bindings::gymkhana::plugin::{clock, log, random, types};
use crate::log::{Log, LogLevel};
use crate::meter::Meter;
use crate::wasi::Console;
use crate::{Assets, Limits, LogLine, Outbound, Plugin};

/// Handles of streams and pollables that one plugin may hold at once; their host side costs memory.
const HANDLES: usize = 1_000;

/// What reading the clock takes. A guest that waits for the clock by reading it gets on.
const READING: u64 = 1_000;

/// Links the contract's imports that come without asking.
pub(crate) fn link(linker: &mut Linker<State>) -> Result<()> {
    types::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    log::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    random::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    clock::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

/// The host's side of one live plugin.
pub(crate) struct State {
    pub account: Account,
    pub log: Log,
    pub clock: Clock,
    pub random: RandomSource,
    pub handles: ResourceTable,
    /// What the guest wrote to its console during this call, once it wrote anything.
    pub console: Option<Console>,
    /// Made when the guest first asks for a file, a socket or its environment, as few do.
    pub wasi: Option<WasiCtx>,
    pub result_bytes: usize,
    pub log_bytes: usize,
    pub meter: Arc<Meter>,
    pub assets: Assets,
    /// Whom the plugin may ask; none outside of episodes, and between the visits of a shared instance.
    pub world: Option<Arc<dyn Outbound>>,
}

impl State {
    pub fn new(plugin: &Plugin, limits: &Limits, seed: Seed, meter: &Arc<Meter>) -> Self {
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(HANDLES);
        Self {
            account: Account::new(limits, plugin.uncounted()),
            log: Log::new(limits.log_bytes),
            clock: Clock::default(),
            random: RandomSource::new(seed.child(plugin.name())),
            handles,
            console: None,
            wasi: None,
            result_bytes: limits.result_bytes,
            log_bytes: limits.log_bytes,
            meter: Arc::clone(meter),
            assets: plugin.assets().clone(),
            world: plugin.world().cloned(),
        }
    }

    /// Prepares for one call: the `number`th acting call, or a look after it.
    pub fn begin_call(&mut self, call: &'static str, number: u64) {
        self.account.refused = false;
        self.random.begin(call, number);
    }

    /// Moves the lines that the guest wrote to its console into the log, and returns its last words: what a panic
    /// says of itself, for instance.
    pub fn end_call(&mut self) -> Option<String> {
        let lines = self.console.as_ref()?.take();
        let words = last_words(&lines);
        for line in lines {
            self.log.push(line.level, line.message);
        }
        words
    }
}

fn last_words(lines: &[LogLine]) -> Option<String> {
    let words: Vec<&str> = lines
        .iter()
        .filter(|line| line.level == LogLevel::Warn && !line.message.starts_with("note: "))
        .map(|line| line.message.trim())
        .filter(|line| !line.is_empty())
        .collect();
    let last = words[words.len().saturating_sub(3)..].join(" ");
    (!last.is_empty()).then(|| last[..last.floor_char_boundary(300)].to_owned())
}

/// Counts what a plugin's memories and tables hold, and remembers that it was refused more.
pub(crate) struct Account {
    memory: usize,
    memory_left: usize,
    uncounted: usize,
    table_elements: usize,
    instances: usize,
    refused: bool,
}

impl Account {
    /// `uncounted` is memory that a runtime begins with, beside the limit.
    fn new(limits: &Limits, uncounted: usize) -> Self {
        let memory = limits.memory_bytes.saturating_add(uncounted);
        Self {
            memory,
            memory_left: memory,
            uncounted,
            table_elements: limits.table_elements,
            instances: limits.instances,
            refused: false,
        }
    }

    /// Bytes of linear memory that the instance has and that count.
    pub fn memory_held(&self) -> usize {
        (self.memory - self.memory_left).saturating_sub(self.uncounted)
    }

    /// Whether growth was refused during this call. Most guests then abort by themselves.
    pub fn was_refused(&self) -> bool {
        self.refused
    }
}

impl ResourceLimiter for Account {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let more = desired.saturating_sub(current);
        let fits = more <= self.memory_left;
        if fits {
            self.memory_left -= more;
        } else {
            self.refused = true;
        }
        Ok(fits)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let fits = desired <= self.table_elements;
        self.refused |= !fits;
        Ok(fits)
    }

    fn instances(&self) -> usize {
        self.instances
    }
}

/// Time that passes only by what the plugin does: a reading takes a microsecond, a sleep its length.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock(pub u64);

impl Clock {
    /// Nanoseconds since the episode began.
    pub fn read(&mut self) -> u64 {
        let now = self.0;
        self.advance(READING);
        now
    }

    pub fn advance(&mut self, nanoseconds: u64) {
        self.0 = self.0.saturating_add(nanoseconds);
    }
}

/// A stream of its own for each call, so that what one call draws shifts no other.
#[derive(Debug)]
pub(crate) struct RandomSource {
    seed: Seed,
    /// The seed when the plugin was instantiated, which it may have drawn its hash tables' keys from.
    first: Seed,
    call: &'static str,
    number: u64,
    /// Made when the call first draws, as few do.
    stream: Option<Stream>,
}

impl RandomSource {
    pub fn new(seed: Seed) -> Self {
        Self { seed, first: seed, call: "instantiate", number: 0, stream: None }
    }

    /// From the next call on, streams come from this seed.
    pub fn reseed(&mut self, seed: Seed) {
        self.seed = seed;
    }

    fn begin(&mut self, call: &'static str, number: u64) {
        self.call = call;
        self.number = number;
        self.stream = None;
    }

    pub fn stream(&mut self) -> &mut Stream {
        let Self { seed, call, number, stream, .. } = self;
        stream.get_or_insert_with(|| seed.child(*call).child(*number).stream())
    }

    /// The seed of hash tables: one for the whole life of the plugin, as they keep it.
    pub fn hash_seed(&self) -> (u64, u64) {
        let mut stream = self.first.child("hash").stream();
        (stream.bits(), stream.bits())
    }
}

/// The guest asked for more bytes at once than it may be given.
#[derive(Debug, thiserror::Error)]
#[error("the guest asked for {0} bytes at once")]
pub(crate) struct TooManyBytes(pub u64);

impl State {
    pub fn random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let fits = usize::try_from(length).ok().filter(|length| *length <= self.result_bytes);
        let mut bytes = vec![0; fits.ok_or_else(|| wasmtime::Error::new(TooManyBytes(length)))?];
        self.random.stream().fill(&mut bytes);
        Ok(bytes)
    }
}

impl types::Host for State {}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String) -> Result<()> {
        let level = match level {
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        self.log.push(level, message);
        Ok(())
    }
}

impl random::Host for State {
    fn next(&mut self) -> Result<u64> {
        Ok(self.random.stream().bits())
    }

    fn fill(&mut self, length: u32) -> Result<Vec<u8>> {
        self.random_bytes(u64::from(length))
    }
}

impl clock::Host for State {
    fn now(&mut self) -> Result<u64> {
        Ok(self.clock.read())
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Module, Store};

    use super::*;
    use crate::engine::{Weight, engine_config};

    #[test]
    fn tables_and_memories_grow_to_their_limits_and_no_further() {
        let limits = Limits { table_elements: 1000, memory_bytes: 4 << 16, ..Limits::default() };
        let engine = Engine::new(&engine_config(Weight::Light, &limits, 4)).unwrap();
        let bomb = wat::parse_str(
            r#"(module (table 10 funcref) (memory 1)
                (func (export "table") (param i32) (result i32) (table.grow (ref.null func) (local.get 0)))
                (func (export "memory") (param i32) (result i32) (memory.grow (local.get 0))))"#,
        );
        let module = Module::new(&engine, bomb.unwrap()).unwrap();
        // What the guest is answered: the size before, or -1 for no.
        for (grows, steps) in [("table", [(900, 10), (90, 910), (1, -1)]), ("memory", [(2, 1), (1, 3), (1, -1)])] {
            let mut store = Store::new(&engine, Account::new(&limits, 0));
            store.limiter(|account| account);
            store.set_epoch_deadline(1_000_000);
            let instance = Instance::new(&mut store, &module, &[]).unwrap();
            let grow = instance.get_typed_func::<i32, i32>(&mut store, grows).unwrap();
            for (more, answered) in steps {
                assert!(!store.data().was_refused(), "{grows} by {more}");
                assert_eq!(grow.call(&mut store, more).unwrap(), answered, "{grows} by {more}");
            }
            assert!(store.data().was_refused());
        }
    }
}
