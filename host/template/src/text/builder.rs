//! Concatenation of texts with their origins.

use super::{Form, Mark, Origin, Str, Text, TextRun};

/// A growing text.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    text: String,
    runs: Vec<TextRun>,
}

impl Builder {
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Appends characters with a mark.
    pub(crate) fn add(&mut self, text: &str, mark: Mark) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        let end = self.text.len();
        let Mark { origin, form } = mark;
        match self.runs.last_mut() {
            Some(last) if last.origin == origin && last.form == form && merges(mark) => last.end = end,
            _ => self.runs.push(TextRun { end, origin, form }),
        }
    }

    /// Appends characters of the template.
    pub(crate) fn own(&mut self, text: &str) {
        self.add(text, Mark::OWN);
    }

    /// Appends one character.
    pub(crate) fn letter(&mut self, letter: char, mark: Mark) {
        self.add(letter.encode_utf8(&mut [0; 4]), mark);
    }

    /// Appends a text with its origins and forms.
    pub(crate) fn add_str(&mut self, text: &Str) {
        for (part, mark) in text.segments() {
            self.add(part, mark);
        }
    }

    /// Appends the characters of a text between two byte offsets. Runs from outside become derived.
    pub(crate) fn add_part(&mut self, text: &Str, start: usize, end: usize) {
        let mut segments = text.segments_from(start);
        while segments.offset() < end {
            let at = segments.offset();
            let Some((part, mark)) = segments.next() else { return };
            let (from, to) = (start.max(at), end.min(at + part.len()));
            if from < to {
                self.add(part.get(from - at..to - at).unwrap_or_default(), mark.derived());
            }
        }
    }

    /// The text so far.
    pub(crate) fn finish(&self) -> Str {
        Str::with_runs(&self.text, &self.runs)
    }

    /// The text as the result of a rendering.
    pub(crate) fn into_text(self) -> Text {
        Text { text: self.text, runs: self.runs }
    }
}

impl Str {
    /// The characters between two byte offsets; origins are kept, and runs from outside become derived.
    pub(crate) fn part(&self, start: usize, end: usize) -> Self {
        if let Some(mark) = self.only_mark() {
            return Self::marked(self.as_str().get(start..end).unwrap_or_default(), mark.derived());
        }
        let mut builder = Builder::default();
        builder.add_part(self, start, end);
        builder.finish()
    }
}

/// Whether two neighbouring runs with this mark are one run.
fn merges(mark: Mark) -> bool {
    mark.origin == Origin::Template || mark.form == Form::Derived
}
