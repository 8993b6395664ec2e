//! Thread that advances an engine's epoch, so that a guest cannot occupy a core alone.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use gymkhana_waits::tick;
use wasmtime::Engine;

/// Period of the epoch. It is short, since four endless loops on two cores delay another guest by several ticks.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Running ticker thread; stops when dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    /// Dropping this disconnects the channel that the thread waits on.
    _stop: Sender<()>,
}

impl Ticker {
    pub fn start(engine: &Engine) -> std::io::Result<Self> {
        let engine = engine.weak();
        let (stop, stopped) = channel();
        std::thread::Builder::new().name("sandbox-ticker".to_owned()).spawn(move || {
            while tick(TICK, &stopped) {
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
            }
        })?;
        Ok(Self { _stop: stop })
    }
}
