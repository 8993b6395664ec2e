//! Wrappers: environments around another environment.

use std::sync::Arc;

use gymkhana_record::{FailureKind, NamedValue};
use gymkhana_registry::{Capability, Kind};

use super::{Code, Link};
use crate::{CallError, Plugin};

/// A plugin cannot be put around another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrapError {
    /// It does not ask for an environment inside.
    #[error(
        "plugin `{0}` is not a wrapper: its manifest does not ask for the capability `inner-environment`\nhint: name \
         a wrapper, or leave it out"
    )]
    NotAWrapper(String),
    /// The plugin inside is not an environment.
    #[error("plugin `{0}` is not an environment, and only environments can be wrapped\nhint: name an environment")]
    NotAnEnvironment(String),
    /// It would be around itself.
    #[error("wrapper `{0}` would be around itself\nhint: use it once")]
    Twice(String),
    /// The plugin inside runs without a sandbox.
    #[error(
        "plugin `{0}` runs without a sandbox and cannot be wrapped\nhint: build it with `gymkhana plugin build` and wrap \
         the component"
    )]
    Unsandboxed(String),
    /// The plugins need more places together than the pool has.
    #[error(
        "plugin `{plugin}` cannot be wrapped around others: together they need {needed} places and the pool has \
         {places}\nhint: allow more live instances"
    )]
    TooBig {
        /// The wrapper.
        plugin: String,
        /// Places that they need.
        needed: u32,
        /// Places of the pool.
        places: u32,
    },
}

impl Plugin {
    /// Returns the plugin as a wrapper around an environment with these options.
    ///
    /// # Errors
    /// If the plugin is not a wrapper, is inside already, or the other is not an environment of the sandbox.
    pub fn wrapping(&self, inner: &Self, options: Vec<NamedValue>) -> Result<Self, WrapError> {
        let name = || self.name().to_owned();
        if !self.is_wrapper() {
            return Err(WrapError::NotAWrapper(name()));
        }
        if !inner.manifest().kinds.contains(&Kind::Environment) {
            return Err(WrapError::NotAnEnvironment(inner.name().to_owned()));
        }
        if inner.chain().any(|inside| inside.name() == self.name()) {
            return Err(WrapError::Twice(name()));
        }
        let link = Link { inner: inner.clone(), options: options.into(), info: Arc::default() };
        let wrapped = Self { link: Some(Arc::new(link)), shared_instances: None, ..self.clone() };
        match (self.code(), inner.is_sandboxed()) {
            (Code::Component(component), true) => {
                let (needed, places) = (wrapped.places(), component.sandbox.pool().total());
                let fits = needed <= places;
                fits.then_some(wrapped).ok_or_else(|| WrapError::TooBig { plugin: name(), needed, places })
            }
            (Code::Unsandboxed(_), _) => Err(WrapError::Unsandboxed(name())),
            (_, false) => Err(WrapError::Unsandboxed(inner.name().to_owned())),
        }
    }

    /// Environment inside the wrapper, with its options.
    #[must_use]
    pub fn inner(&self) -> Option<(&Self, &Arc<[NamedValue]>)> {
        self.link.as_ref().map(|link| (&link.inner, &link.options))
    }

    /// The plugin and those inside of it, from the outside in.
    pub fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |plugin| plugin.inner().map(|(inner, _)| inner))
    }

    /// The environment that wrappers are around; the plugin itself if it has no environment inside.
    #[must_use]
    pub fn innermost(&self) -> &Self {
        self.chain().last().unwrap_or(self)
    }

    /// Returns the wrapper with other options of the innermost environment; `None` if no environment is inside.
    #[must_use]
    pub fn with_environment_options(&self, options: &[NamedValue]) -> Option<Self> {
        let link = self.link.as_ref()?;
        let link = match link.inner.with_environment_options(options) {
            Some(inner) => Link { inner, options: Arc::clone(&link.options), info: Arc::clone(&link.info) },
            None => Link { inner: link.inner.clone(), options: options.into(), info: Arc::clone(&link.info) },
        };
        Some(Self { link: Some(Arc::new(link)), ..self.clone() })
    }

    /// Returns the plugin with each plugin of its chain replaced, such as by one with a receiver of its log. The first
    /// call gets the innermost plugin.
    #[must_use]
    pub fn map_chain(&self, mut replace: impl FnMut(&Self) -> Self) -> Self {
        self.mapped(&mut replace)
    }

    fn mapped(&self, replace: &mut dyn FnMut(&Self) -> Self) -> Self {
        let Some(link) = &self.link else { return replace(self) };
        let (options, info) = (Arc::clone(&link.options), Arc::clone(&link.info));
        let link = Link { inner: link.inner.mapped(replace), options, info };
        Self { link: Some(Arc::new(link)), ..replace(self) }
    }

    /// Returns whether the plugin is an environment that needs another one inside.
    #[must_use]
    pub fn is_wrapper(&self) -> bool {
        self.manifest().capabilities.contains(&Capability::InnerEnvironment)
    }

    /// Checks that a wrapper has an environment inside.
    pub(crate) fn check_wraps(&self) -> Result<(), CallError> {
        if !self.is_wrapper() || self.link.is_some() {
            return Ok(());
        }
        let message = format!("plugin `{}` is a wrapper, and no environment is inside", self.manifest().name);
        Err(CallError::new(FailureKind::Refused, message))
    }
}
