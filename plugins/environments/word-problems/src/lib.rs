//! Arithmetic stories, generated without end.
