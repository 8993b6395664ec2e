//! Typed errors of plugin calls and of the sandbox's set-up.

use std::pin::Pin;

use gymkhana_record::{Failure, FailureKind};

use crate::bindings::gymkhana::plugin::types::Error as PluginError;
use crate::cache::CacheError;

/// A plugin call in progress. Boxed, so that the engine's generic code is compiled and inlined in this crate instead of
/// in every crate that awaits a call: this makes a step about 20 % faster.
pub type CallFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// Size limit of a failure's message in bytes. A record holds every failure of an episode.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// Failed call of a plugin. The caller adds the plugin's name and the call site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// Category of the failure.
    pub kind: FailureKind,
    /// Description for people, identical on every replay.
    pub message: String,
    /// Variant of the error that the plugin itself returned; `None` for every other failure, and for failures that
    /// were read back from a record.
    pub plugin_error: Option<PluginErrorKind>,
    /// Name of the plugin inside the called wrapper that failed; `None` if the called plugin itself failed.
    pub inner: Option<String>,
}

/// Variant of `types.error` that a plugin returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PluginErrorKind {
    /// The request was invalid.
    Invalid,
    /// The requested item does not exist.
    NotFound,
    /// The snapshot cannot be read.
    BadSnapshot,
    /// A capability is missing.
    Denied,
    /// Any other failure.
    Other,
}

impl PluginErrorKind {
    /// Begin of a message about an error of this variant.
    fn words(self) -> &'static str {
        match self {
            Self::Invalid => "the plugin found the request invalid",
            Self::NotFound => "the plugin did not find what was asked for",
            Self::BadSnapshot => "the plugin cannot read this snapshot",
            Self::Denied => "the plugin lacks a capability",
            Self::Other => "the plugin failed",
        }
    }

    /// Error of this variant with the plugin's own words.
    pub(crate) fn with_message(self, why: String) -> PluginError {
        match self {
            Self::Invalid => PluginError::Invalid(why),
            Self::NotFound => PluginError::NotFound(why),
            Self::BadSnapshot => PluginError::BadSnapshot(why),
            Self::Denied => PluginError::Denied(why),
            Self::Other => PluginError::Other(why),
        }
    }
}

impl CallError {
    /// Creates a failure that the plugin did not return itself. A long message is cut.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE_BYTES {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
            message.push_str(" [cut]");
        }
        Self { kind, message, plugin_error: None, inner: None }
    }

    /// Returns whether the plugin reported the request as invalid, which is a mistake of the caller and not of the
    /// plugin.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.plugin_error == Some(PluginErrorKind::Invalid)
    }

    /// The message of an error that the plugin returned, in the plugin's own words; the whole message of another failure.
    #[must_use]
    pub fn plugin_words(&self) -> &str {
        let words = self.plugin_error.and_then(|kind| self.message.strip_prefix(kind.words())?.strip_prefix(": "));
        words.unwrap_or(&self.message)
    }

    /// Converts the error that the plugin returned.
    #[must_use]
    pub fn refused(error: PluginError) -> Self {
        let (kind, why) = match error {
            PluginError::Invalid(why) => (PluginErrorKind::Invalid, why),
            PluginError::NotFound(why) => (PluginErrorKind::NotFound, why),
            PluginError::BadSnapshot(why) => (PluginErrorKind::BadSnapshot, why),
            PluginError::Denied(why) => (PluginErrorKind::Denied, why),
            PluginError::Other(why) => (PluginErrorKind::Other, why),
        };
        let message = format!("{}: {why}", kind.words());
        Self { plugin_error: Some(kind), ..Self::new(FailureKind::Refused, message) }
    }

    /// The error as one that the plugin returned.
    ///
    /// # Errors
    /// The error itself, if it is a failure of another kind.
    pub(crate) fn into_returned(self) -> Result<PluginError, Self> {
        if self.kind != FailureKind::Refused {
            return Err(self);
        }
        let Some(kind) = self.plugin_error else { return Ok(PluginError::NotFound(self.message)) };
        let why = self.message.strip_prefix(kind.words()).and_then(|rest| rest.strip_prefix(": "));
        Ok(kind.with_message(why.unwrap_or(&self.message).to_owned()))
    }

    /// The error as one of the plugin `name` inside a wrapper, unless it names one that is deeper inside.
    pub(crate) fn inside(self, name: &str) -> Self {
        Self { inner: self.inner.or_else(|| Some(name.to_owned())), ..self }
    }

    /// Creates the failure of a result that breaks the contract.
    pub(crate) fn malformed(what: impl std::fmt::Display) -> Self {
        Self::new(FailureKind::Malformed, format!("the plugin's result breaks the contract: {what}"))
    }

    /// Returns the error of every later call after this failure ended the plugin's store.
    pub(crate) fn after_end(&self) -> Self {
        let message = format!("its state was lost in an earlier failure: {}", self.message);
        Self { inner: self.inner.clone(), ..Self::new(self.kind, message) }
    }
}

impl From<Failure> for CallError {
    /// The error of a recorded failure. The variant of the plugin's own error is not recorded.
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind, failure.message)
    }
}

/// A sandbox cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The machine cannot hold the requested number of live instances.
    #[error(
        "cannot allow {wanted} live plugins: this machine holds {allowed} (each takes four memory mappings of \
         vm.max_map_count)\nhint: set 1 to {allowed}, or raise vm.max_map_count"
    )]
    Instances {
        /// Requested number.
        wanted: u32,
        /// Largest allowed number.
        allowed: u32,
    },
    /// The folder for compiled plugins cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The engine rejects its settings, or the machine cannot reserve the memory.
    #[error("cannot set up the WebAssembly engine\nhint: allow fewer live plugins or set smaller limits")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The ticker thread cannot be started.
    #[error("cannot start the thread that interrupts plugins\nhint: raise the limit on processes")]
    Ticker(#[source] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugins_own_variant_is_kept() {
        let why = "the plugin found the request invalid: x".to_owned();
        for (error, kind) in [
            (PluginError::Invalid(why.clone()), PluginErrorKind::Invalid),
            (PluginError::NotFound(why.clone()), PluginErrorKind::NotFound),
            (PluginError::BadSnapshot(why.clone()), PluginErrorKind::BadSnapshot),
            (PluginError::Denied(why.clone()), PluginErrorKind::Denied),
            (PluginError::Other(why.clone()), PluginErrorKind::Other),
        ] {
            let error = CallError::refused(error);
            assert_eq!((error.kind, error.plugin_error), (FailureKind::Refused, Some(kind)));
            assert_eq!(error.is_invalid(), kind == PluginErrorKind::Invalid, "{error}");
            assert_eq!(error.plugin_words(), why);
        }
    }

    #[test]
    fn a_wrapper_receives_what_the_plugin_inside_returned_and_no_failure() {
        let why = || "unknown split `x`".to_owned();
        let returned = CallError::refused(PluginError::NotFound(why())).into_returned();
        assert!(matches!(returned, Ok(PluginError::NotFound(words)) if words == why()));
        let trap = CallError::new(FailureKind::Trap, "it trapped");
        assert_eq!(trap.clone().into_returned().err(), Some(trap.clone()));
        let deep = trap.inside("deep").inside("middle");
        assert_eq!((deep.inner.as_deref(), deep.after_end().inner.as_deref()), (Some("deep"), Some("deep")));
    }

    #[test]
    fn a_message_alone_does_not_make_an_error_invalid() {
        let message = "the plugin found the request invalid: option `x`";
        assert!(!CallError::new(FailureKind::Refused, message).is_invalid());
        assert_eq!(CallError::new(FailureKind::Refused, message).plugin_words(), message);
        let invalid = CallError::refused(PluginError::Invalid("option `x`".to_owned()));
        assert_eq!(invalid.message, message);
        assert!(!invalid.after_end().is_invalid());
    }
}
