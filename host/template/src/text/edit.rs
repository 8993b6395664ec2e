//! Operations on texts that keep the origin of each character.

use super::{Builder, Form, Mark, Origin, Str, is_space};

impl Str {
    /// The text without white space at its start or end. This depends on the classes of its sources only.
    pub(crate) fn trimmed(&self, start: bool, end: bool) -> Self {
        let text = self.as_str();
        let from = if start { super::first_of_trimmed(text) } else { 0 };
        let to = if end { text.trim_end_matches(is_space).len() } else { text.len() };
        if let (Some(Mark::OWN), 0, true) = (self.only_mark(), from, to == text.len()) {
            return self.clone();
        }
        if let Some(mark) = self.only_mark() {
            let text = text.get(from..to).unwrap_or_default();
            return Self::marked(text, mark.trimmed(start, end));
        }
        let mut builder = Builder::default();
        let mut at = 0;
        for (part, mark) in self.segments() {
            let (first, last) = (at, at + part.len());
            at = last;
            let (low, high) = (from.max(first), to.min(last));
            if low >= high {
                continue;
            }
            let at_start = start && low == from;
            let at_end = end && high == to;
            builder.add(part.get(low - first..high - first).unwrap_or_default(), mark.trimmed(at_start, at_end));
        }
        builder.finish()
    }

    /// The text, repeated.
    pub(crate) fn repeated(&self, times: usize) -> Self {
        let mut builder = Builder::default();
        for _ in 0..times {
            builder.add_str(self);
        }
        builder.finish()
    }

    /// Replaces each character by some text that is made from it.
    pub(crate) fn map_letters(&self, mut change: impl FnMut(char, &mut String)) -> Self {
        let mut builder = Builder::default();
        let mut changed = String::new();
        for (part, mark) in self.segments() {
            changed.clear();
            part.chars().for_each(|letter| change(letter, &mut changed));
            builder.add(&changed, mark.derived());
        }
        builder.finish()
    }

    /// The text, of which the template's characters come from the author of a format if that is outside: they may be
    /// fill characters and separators that the format chose.
    pub(crate) fn shaped(&self, format: Mark) -> Self {
        if format.origin == Origin::Template {
            return self.clone();
        }
        let mut builder = Builder::default();
        for (part, mark) in self.segments() {
            builder.add(part, if mark == Mark::OWN { format.derived() } else { mark });
        }
        builder.finish()
    }

    /// As [`Str::shaped`], for the first author of a format who is outside.
    pub(crate) fn shaped_by(&self, format: &Self) -> Self {
        let mut marks = format.segments().map(|(_, mark)| mark);
        marks.find(|mark| mark.origin != Origin::Template).map_or_else(|| self.clone(), |mark| self.shaped(mark))
    }

    /// Gives the characters of this text's runs to `whole`, a version of it that was made at once, if it was made run by
    /// run; else all of `whole` comes from the first source.
    pub(crate) fn converted(&self, convert: impl Fn(&str) -> String) -> Self {
        let whole = convert(self.as_str());
        if self.only_mark().is_some() {
            return self.remade(&whole);
        }
        let mut builder = Builder::default();
        for (part, mark) in self.segments() {
            builder.add(&convert(part), mark.derived());
        }
        let pieced = builder.finish();
        if pieced.as_str() == whole { pieced } else { self.remade(&whole) }
    }
}

impl Mark {
    /// The mark after white space was removed at one end or both.
    fn trimmed(self, at_start: bool, at_end: bool) -> Self {
        if self.origin == Origin::Template || !(at_start || at_end) {
            return self;
        }
        let form = match self.form {
            Form::Whole => Form::Trimmed { start: at_start, end: at_end },
            Form::Trimmed { start, end } => Form::Trimmed { start: start || at_start, end: end || at_end },
            Form::Derived => Form::Derived,
        };
        Self { form, ..self }
    }
}
