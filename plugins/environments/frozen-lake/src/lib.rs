//! Cross the ice without falling into a hole.
