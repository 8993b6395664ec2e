//! Texts that carry the origin of each character.

mod builder;
mod edit;
mod space;
mod str;

pub(crate) use builder::Builder;
pub(crate) use space::{first_of_trimmed, is_space};
pub(crate) use str::{Mark, Str};

pub use space::Class;

/// The author of a run of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The template, or a value that the caller made with [`Value::own`](crate::Value::own).
    Template,
    /// The text with this number, which the caller made with [`Value::outside`](crate::Value::outside).
    Source(u32),
}

/// The relation of a run to the text of its source. For runs of the template it has no meaning and is [`Form::Whole`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// The full text.
    Whole,
    /// The full text without the white space at one end or both.
    Trimmed {
        /// Whether white space was removed at the start.
        start: bool,
        /// Whether white space was removed at the end.
        end: bool,
    },
    /// Any other text that was made from the source.
    Derived,
}

/// Consecutive characters of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRun {
    /// Offset of the first byte after the run.
    pub end: usize,
    /// Author of the characters.
    pub origin: Origin,
    /// Relation to the text of the source.
    pub form: Form,
}

/// A piece of a text: one run with its characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The characters.
    pub text: &'a str,
    /// Author of the characters.
    pub origin: Origin,
    /// Relation to the text of the source.
    pub form: Form,
}

/// A text and its runs. Runs are not empty and cover the text. Neighbouring runs of the template are one run, and so are
/// neighbouring derived runs of one source; whole and trimmed runs stay separate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    text: String,
    runs: Vec<TextRun>,
}

impl Text {
    /// The characters.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The runs, in order.
    pub fn runs(&self) -> &[TextRun] {
        &self.runs
    }

    /// The runs with their characters, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut start = 0;
        self.runs.iter().map(move |run| {
            let text = self.text.get(start..run.end).unwrap_or_default();
            start = run.end;
            Piece { text, origin: run.origin, form: run.form }
        })
    }
}
