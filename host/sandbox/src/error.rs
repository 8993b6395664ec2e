//! Why a call of a plugin failed, typed so that the run knows who pays for it.

use std::pin::Pin;

use gymkhana_record::FailureKind;
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

use crate::bindings::gymkhana::plugin::types::Error as PluginError;
use crate::meter::BudgetSpent;
use crate::spending::Allowance;
use crate::state::TooManyBytes;
use crate::{Limits, OutboundError};

/// A call of a plugin under way. Boxed, so that the engine's generic code is compiled in this crate, where it is
/// inlined well, and not once more in each crate that awaits a call: that makes a step a fifth faster.
pub type CallFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// With what the message of a plugin's `invalid` begins.
const INVALID: &str = "the plugin found the request invalid";

/// A call of a plugin failed. The caller knows which plugin and which call, and adds them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What went wrong.
    pub kind: FailureKind,
    /// What happened, for people; the same on every replay.
    pub message: String,
}

impl CallError {
    /// A failure of this kind.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Whether the plugin said that the request was invalid: the host's mistake, and none of its own.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.kind == FailureKind::Refused && self.message.starts_with(INVALID)
    }

    /// The plugin said itself that it could not do what it was asked.
    pub(crate) fn refused(error: PluginError) -> Self {
        let message = match error {
            PluginError::Invalid(why) => format!("{INVALID}: {why}"),
            PluginError::NotFound(why) => format!("the plugin did not find what was asked for: {why}"),
            PluginError::BadSnapshot(why) => format!("the plugin cannot read this snapshot: {why}"),
            PluginError::Denied(why) => format!("the plugin lacks a capability: {why}"),
            PluginError::Other(why) => format!("the plugin could not do it: {why}"),
        };
        Self::new(FailureKind::Refused, message)
    }

    pub(crate) fn malformed(what: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Malformed, format!("the plugin's result breaks the contract: {what}"))
    }

    pub(crate) fn deadline(limits: &Limits) -> Self {
        Self::new(
            FailureKind::Deadline,
            format!("the call took longer than the wall cap of {} ms", limits.wall.as_millis()),
        )
    }

    /// What the engine's error means. `out_of_memory` says that the guest was refused memory during the call, and
    /// `last_words` is what it wrote to standard error.
    pub(crate) fn from_engine(
        error: &wasmtime::Error,
        limits: &Limits,
        allowance: &Allowance,
        out_of_memory: bool,
        last_words: Option<&str>,
    ) -> Self {
        let of = |error: Self| (error.kind, error.message);
        let (kind, mut message) = if error.is::<BudgetSpent>() {
            of(allowance.out_of_time(limits))
        } else if error.downcast_ref() == Some(&Trap::OutOfFuel) {
            of(allowance.out_of_fuel(limits))
        } else if out_of_memory {
            let (bytes, elements) = (limits.memory_bytes, limits.table_elements);
            let limit = format!("{bytes} bytes of memory or {elements} elements of a table");
            (FailureKind::Memory, format!("the plugin wanted more than its limit of {limit}"))
        } else if is_copy_limit(error) {
            (
                FailureKind::ResultSize,
                format!("the plugin passed more than its limit of {} bytes to the host at once", limits.result_bytes),
            )
        } else if error.is::<PoolConcurrencyLimitError>() {
            (FailureKind::Capacity, format!("the pool of live plugins is full: {error}"))
        } else if let Some(OutboundError(why)) = error.downcast_ref() {
            return Self::new(FailureKind::Fault, format!("what the plugin asked outside failed: {why}"));
        } else if let Some(trap) = error.downcast_ref::<Trap>() {
            (FailureKind::Trap, format!("the plugin trapped: {trap}"))
        } else if let Some(I32Exit(status)) = error.downcast_ref() {
            (FailureKind::Trap, format!("the plugin ended itself with status {status}"))
        } else if let Some(full) = error.downcast_ref::<ResourceTableError>() {
            (FailureKind::Trap, format!("the plugin misused its handles of streams and pollables: {full}"))
        } else {
            return Self::malformed(error.root_cause());
        };
        if let Some(words) = last_words {
            message = format!("{message}; its last words: {words}");
        }
        Self::new(kind, message)
    }

    /// What every call answers after this failure ended the plugin's store.
    pub(crate) fn afterwards(&self) -> Self {
        Self::new(self.kind, format!("its state was lost in an earlier failure: {}", self.message))
    }
}

fn is_copy_limit(error: &wasmtime::Error) -> bool {
    // The engine's own error has no public type.
    error.is::<TooManyBytes>() || error.root_cause().to_string().contains("fuel allocated for hostcalls")
}
