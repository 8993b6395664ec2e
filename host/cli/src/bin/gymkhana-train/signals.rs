//! Signals that stop a run: the first one at its next safe point, the second one at once.

use std::sync::{Arc, OnceLock};

use gymkhana_run::StopRequest;
use tokio::signal::unix::{Signal, SignalKind, signal};

use gymkhana_cli::error::{Classify, CliResult};
use gymkhana_cli::printer::Printer;

/// A signal that stops a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT, by Ctrl-C.
    Interrupt,
    /// SIGTERM, by the system or another program.
    Terminate,
}

impl StopSignal {
    /// Exit status by the convention of shells: 128 and the number of the signal.
    fn status(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    /// Exit code of a run that the signal stopped.
    pub fn exit_code(self) -> u8 {
        self.status()
    }
}

/// The listener for signals, and the first one received.
pub struct SignalListener(Arc<OnceLock<StopSignal>>);

impl SignalListener {
    /// Starts to listen, on the current runtime.
    pub fn listen(stop: StopRequest, printer: Printer) -> CliResult<Self> {
        let listen = |kind| signal(kind).internal();
        let mut signals =
            Signals { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? };
        let first = Arc::new(OnceLock::new());
        let received = Arc::clone(&first);
        tokio::spawn(async move {
            let signal = signals.next().await;
            // Only this task sets it.
            let _ = received.set(signal);
            stop.request();
            printer.status("stopping at the next safe point; a second signal ends the run at once");
            let second = signals.next().await;
            printer.warn(
                "ended at once: the steps since the last checkpoint are lost; continue with `host run --resume DIR`",
            );
            end_at_once(second);
        });
        Ok(Self(first))
    }

    /// The first signal, if one was received.
    pub fn signal(&self) -> Option<StopSignal> {
        self.0.get().copied()
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}

/// Ends the process without destructors: those of libtorch would wait for, or break, the computation in progress. The
/// run's folder is safe against an end at any moment.
fn end_at_once(signal: StopSignal) -> ! {
    // SAFETY: `_exit` takes any number and returns to no caller.
    unsafe { libc::_exit(i32::from(signal.status())) }
}
