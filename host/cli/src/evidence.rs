//! Tests that generated pages name.

/// What shows a row of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A test: its file and its name.
    Test(&'static str, &'static str),
    /// No test, for this reason.
    Missing(&'static str),
}

impl Evidence {
    /// The text of a cell.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Test(_, name) => format!("`{name}`"),
            Self::Missing(reason) => format!("none: {reason}"),
        }
    }

    /// Whether it is the test of this name.
    #[must_use]
    pub fn is_named(&self, wanted: &str) -> bool {
        matches!(self, Self::Test(_, name) if *name == wanted)
    }

    /// Asserts that the named test exists.
    #[cfg(test)]
    pub(crate) fn assert_there(&self) {
        let Self::Test(file, name) = self else { return };
        let text = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file));
        let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {name}(")), "{file} has no test `{name}`");
    }
}
