//! The strings of a rendering: shared text with its runs.

use std::sync::Arc;

use super::{Form, Origin, TextRun};

/// Origin and form of some characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) origin: Origin,
    pub(crate) form: Form,
}

impl Mark {
    pub(crate) const OWN: Self = Self { origin: Origin::Template, form: Form::Whole };

    /// The mark of characters that were made from characters with this mark.
    pub(crate) fn derived(self) -> Self {
        match self.origin {
            Origin::Template => Self::OWN,
            Origin::Source(_) => Self { origin: self.origin, form: Form::Derived },
        }
    }
}

/// A shared text with the origin of its characters. Clones are cheap.
#[derive(Debug, Clone)]
pub(crate) struct Str {
    text: Arc<str>,
    marks: MarkSet,
    /// Whether the text counts as HTML, to which other texts are appended with escapes, as `markupsafe.Markup`.
    is_markup: bool,
}

#[derive(Debug, Clone)]
enum MarkSet {
    One(Mark),
    Many(Arc<[TextRun]>),
}

impl Str {
    /// A text of the template.
    pub(crate) fn own(text: &str) -> Self {
        Self { text: Arc::from(text), marks: MarkSet::One(Mark::OWN), is_markup: false }
    }

    /// As [`Str::own`], without a copy.
    pub(crate) fn shared(text: Arc<str>) -> Self {
        Self { text, marks: MarkSet::One(Mark::OWN), is_markup: false }
    }

    /// The full text of a source.
    pub(crate) fn outside(text: &str, source: u32) -> Self {
        let mark = Mark { origin: Origin::Source(source), form: Form::Whole };
        Self { text: Arc::from(text), marks: MarkSet::One(mark), is_markup: false }
    }

    /// A text with one mark.
    pub(super) fn marked(text: &str, mark: Mark) -> Self {
        Self { text: Arc::from(text), marks: MarkSet::One(mark), is_markup: false }
    }

    /// A text with its runs, which must cover it.
    pub(super) fn with_runs(text: &str, runs: &[TextRun]) -> Self {
        let marks = match runs {
            [] => MarkSet::One(Mark::OWN),
            [run] => MarkSet::One(Mark { origin: run.origin, form: run.form }),
            _ => MarkSet::Many(Arc::from(runs)),
        };
        Self { text: Arc::from(text), marks, is_markup: false }
    }

    /// The text as HTML, or as plain text.
    pub(crate) fn with_markup(self, is_markup: bool) -> Self {
        Self { is_markup, ..self }
    }

    pub(crate) fn is_markup(&self) -> bool {
        self.is_markup
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The text for an index of a dictionary.
    pub(crate) fn to_arc(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// Number of characters.
    pub(crate) fn count(&self) -> usize {
        self.text.chars().count()
    }

    /// Parts of equal origin, in order.
    pub(crate) fn segments(&self) -> Segments<'_> {
        Segments { text: &self.text, marks: &self.marks, at: 0, next: 0 }
    }

    /// Parts of equal origin with their offsets, from the one that contains a byte.
    pub(super) fn segments_from(&self, byte: usize) -> Segments<'_> {
        let next = match &self.marks {
            MarkSet::One(_) => 0,
            MarkSet::Many(runs) => runs.partition_point(|run| run.end <= byte),
        };
        let at = match &self.marks {
            MarkSet::Many(runs) if next > 0 => runs.get(next - 1).map_or(0, |run| run.end),
            _ => 0,
        };
        Segments { text: &self.text, marks: &self.marks, at, next }
    }

    /// Characters with their marks.
    pub(crate) fn letters(&self) -> impl Iterator<Item = (char, Mark)> + '_ {
        self.segments().flat_map(|(text, mark)| text.chars().map(move |letter| (letter, mark)))
    }

    /// The mark of all characters, if it is the same.
    pub(crate) fn only_mark(&self) -> Option<Mark> {
        match &self.marks {
            MarkSet::One(mark) => Some(*mark),
            MarkSet::Many(_) => None,
        }
    }

    /// Numbers of the sources in the text.
    pub(crate) fn sources(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments().filter_map(|(_, mark)| match mark.origin {
            Origin::Source(source) => Some(source),
            Origin::Template => None,
        })
    }

    /// Whether characters come from outside.
    pub(crate) fn is_outside(&self) -> bool {
        self.sources().next().is_some()
    }

    /// A text that was made from this one by an operation that does not keep origins of characters: all of it comes from
    /// outside if a character of this text does.
    pub(crate) fn remade(&self, text: &str) -> Self {
        let outside = self.segments().map(|(_, mark)| mark).find(|mark| mark.origin != Origin::Template);
        let mark = outside.map_or(Mark::OWN, Mark::derived);
        Self { text: Arc::from(text), marks: MarkSet::One(mark), is_markup: false }
    }
}

/// Iterator over the parts of a text.
pub(crate) struct Segments<'a> {
    text: &'a str,
    marks: &'a MarkSet,
    at: usize,
    next: usize,
}

impl Segments<'_> {
    /// Offset of the next part.
    pub(super) fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = (&'a str, Mark);

    fn next(&mut self) -> Option<Self::Item> {
        let (end, mark) = match self.marks {
            MarkSet::One(mark) => (self.text.len(), *mark),
            MarkSet::Many(runs) => {
                let run = runs.get(self.next)?;
                (run.end, Mark { origin: run.origin, form: run.form })
            }
        };
        let text = self.text.get(self.at..end).filter(|text| !text.is_empty())?;
        (self.at, self.next) = (end, self.next + 1);
        Some((text, mark))
    }
}
