//! The plugins of an environment in one episode: wrappers and the environment inside, each with its own outbound calls, log
//! and costs.

use std::sync::Arc;

use gymkhana_record::{Boundary, CallSite, Exchange, LogEntry};
use gymkhana_sandbox::Plugin;

use crate::limits::log::LogRecorder;
use crate::limits::quota::Usage;
use crate::overrides::CallOverrides;
use crate::recorder::{ExchangeRecorder, with_recorder};

/// One plugin of the chain.
struct ChainPart {
    at: Boundary,
    /// Records its outbound calls, if it can make any.
    recorder: Option<Arc<ExchangeRecorder>>,
    log: Arc<LogRecorder>,
}

/// Recorders of the plugins of an environment, the outermost first.
pub(crate) struct Chain(Vec<ChainPart>);

/// Recorders of outbound calls at a snapshot, the outermost first.
pub(crate) type ChainRecorders = Vec<Option<Arc<ExchangeRecorder>>>;

/// The boundary of an environment's plugin.
pub(crate) fn boundary(plugin: &Plugin) -> Boundary {
    Boundary::Environment(plugin.name().to_owned())
}

impl Chain {
    /// Recorders for a new episode, with the plugins that use them.
    pub fn new(plugin: &Plugin, overrides: &CallOverrides) -> (Self, Plugin) {
        let recorder = |plugin: &Plugin| ExchangeRecorder::of(plugin, overrides.exchanges(&boundary(plugin)));
        let recorders = plugin.chain().map(recorder).collect();
        Self::with(plugin, recorders)
    }

    /// Recorders that continue those of a snapshot, with the plugins that use them.
    pub fn copied(plugin: &Plugin, recorders: &ChainRecorders) -> (Self, Plugin) {
        let copy = |recorder: &Option<Arc<ExchangeRecorder>>| recorder.as_deref().map(ExchangeRecorder::copy);
        Self::with(plugin, recorders.iter().map(copy).collect())
    }

    fn with(plugin: &Plugin, recorders: ChainRecorders) -> (Self, Plugin) {
        let part = |(plugin, recorder): (&Plugin, Option<Arc<ExchangeRecorder>>)| ChainPart {
            at: boundary(plugin),
            recorder,
            log: LogRecorder::of(plugin),
        };
        let chain = Self(plugin.chain().zip(recorders).map(part).collect());
        let mut parts = chain.0.iter().rev();
        let attached = plugin.map_chain(|plugin| match parts.next() {
            Some(part) => part.log.attach(&with_recorder(plugin, part.recorder.as_ref())),
            None => plugin.clone(),
        });
        (chain, attached)
    }

    /// Recorders of plugins whose episode was saved, with the used parts of their quotas.
    pub fn resumed(plugin: &Plugin, used: &[Usage]) -> ChainRecorders {
        let none = Usage::default();
        let used = used.iter().chain(std::iter::repeat(&none));
        plugin.chain().zip(used).map(|(plugin, used)| ExchangeRecorder::resumed(plugin, used)).collect()
    }

    /// Copies of the recorders of outbound calls.
    pub fn recorders(&self) -> ChainRecorders {
        self.0.iter().map(|part| part.recorder.as_deref().map(ExchangeRecorder::copy)).collect()
    }

    /// Boundaries of the plugins.
    pub fn boundaries(&self) -> impl Iterator<Item = &Boundary> {
        self.0.iter().map(|part| &part.at)
    }

    /// Refuses outbound calls while a state is copied.
    pub fn mute(&self, muted: bool) {
        self.0.iter().filter_map(|part| part.recorder.as_ref()).for_each(|recorder| recorder.mute(muted));
    }

    /// Ends the replay: later calls are made.
    pub fn end_replay(&self) {
        self.0.iter().filter_map(|part| part.recorder.as_ref()).for_each(|recorder| recorder.end_replay());
    }

    /// Drops the lines since they were last taken.
    pub fn discard_log(&self) {
        self.0.iter().for_each(|part| part.log.discard());
    }

    /// Takes the log of the last call, of the outermost plugin first.
    pub fn take_log(&self, site: &CallSite, seat: Option<u32>) -> Vec<LogEntry> {
        self.0.iter().flat_map(|part| part.log.take(&part.at, site, seat)).collect()
    }

    /// Takes the outbound calls of the last call, of the outermost plugin first.
    pub fn take_exchanges(&self, site: &CallSite) -> Vec<Exchange> {
        let of = |part: &ChainPart| part.recorder.as_ref().map(|recorder| recorder.take(&part.at, site));
        self.0.iter().filter_map(of).flatten().collect()
    }
}
