//! The thread that advances an engine's epoch, so that no guest keeps a core to itself.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use wasmtime::Engine;

/// Short, since four endless loops on two cores delay a good neighbour by some ticks.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Ticks until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    /// The thread waits on the other end, which is disconnected by the drop.
    _stop: Sender<()>,
}

impl Ticker {
    pub fn start(engine: &Engine) -> std::io::Result<Self> {
        let engine = engine.weak();
        let (stop, stopped) = channel();
        std::thread::Builder::new().name("sandbox-ticker".to_owned()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
            }
        })?;
        Ok(Self { _stop: stop })
    }
}
