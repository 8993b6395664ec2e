//! Calls with a tag for each parameter, whose values are untyped text.
//!
//! The model writes strings as they are and other values as JSON or in Python's spelling (`True`, `None`); the
//! function's schema decides. Values are not escaped, so a value ends where its closing tag is followed by another
//! parameter or the end of the call.

mod names;
mod read;
pub(super) mod table;
mod write;

pub(super) use self::read::parse;
pub(super) use self::write::write;

/// How names of functions and parameters are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameForm {
    /// `<function=NAME>`.
    Plain,
    /// `<invoke name="NAME">`, perhaps with further attributes.
    Attribute,
    /// The function's name up to a line break or a tag, and `<arg_key>NAME</arg_key><arg_value>`.
    Element {
        /// The tag before a value.
        value: &'static str,
        /// The tag behind a parameter's name.
        end: &'static str,
    },
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Values {
    /// Whether a line break stands before and behind a value.
    pub on_lines: bool,
    /// Whether `True`, `False` and `None` are written so.
    pub python_words: bool,
    /// Whether an attribute `string` says which values are texts.
    pub marks_strings: bool,
    /// Whether a value may stand in `<![CDATA[…]]>`.
    pub cdata: bool,
}

/// The tags of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tags {
    /// Marks before and behind calls; the first pair is written.
    pub sections: &'static [(&'static str, &'static str)],
    /// Whether all calls are written in one section.
    pub one_section: bool,
    /// Marks that are written around all sections.
    pub outer: (&'static str, &'static str),
    /// Marks without meaning before a function or behind its name.
    pub preface: &'static [&'static str],
    /// How names are written.
    pub name: NameForm,
    /// The mark before a function's name.
    pub function: &'static str,
    /// The tag that ends a function.
    pub function_end: &'static str,
    /// The mark before a parameter's name.
    pub parameter: &'static str,
    /// The tag behind a value.
    pub parameter_end: &'static str,
    /// How values are written.
    pub values: Values,
    /// Whether tags are written on lines of their own.
    pub on_lines: bool,
    /// Whether the tags are control tokens of the tokenizer.
    pub control_tags: bool,
}

impl Tags {
    /// Whether text begins with a closing mark of a section, and the text behind it.
    fn strip_close<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.sections.iter().find_map(|(_, close)| text.strip_prefix(close))
    }
}
