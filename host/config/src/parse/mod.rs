//! From a text to typed sections: `--set` laid over it, defaults written out, values checked, mistakes in words.

pub(crate) mod defaults;
pub(crate) mod file;
pub(crate) mod hint;
pub(crate) mod mismatch;
pub(crate) mod overlay;
pub(crate) mod refusal;
pub(crate) mod top_level;
pub(crate) mod wording;
