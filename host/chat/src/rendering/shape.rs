//! Renderings that serve all conversations of one signature: the template's own texts, and places for texts from outside.

use gymkhana_template::{Class, Form, Origin, Rendering};

use super::conversation::NumberedConversation;
use super::{Passage, Rendered};
use crate::memo::Bytes;

/// A rendering without the texts from outside.
#[derive(Debug)]
pub(crate) struct Shape(Vec<ShapePiece>);

#[derive(Debug)]
enum ShapePiece {
    Own(Box<str>),
    /// The text of a source, whole or without white space at its ends.
    Text {
        source: u32,
        form: Form,
    },
    /// A text that was made from a source whose text is the same in all conversations of the signature.
    Fixed {
        source: u32,
        text: Box<str>,
    },
}

impl Shape {
    /// The shape of a rendering, of which texts of messages are whole or trimmed.
    pub(super) fn of(rendering: &Rendering) -> Self {
        let piece = |piece: gymkhana_template::Piece<'_>| match (piece.origin, piece.form) {
            (Origin::Template, _) => ShapePiece::Own(piece.text.into()),
            (Origin::Source(source), Form::Derived) => ShapePiece::Fixed { source, text: piece.text.into() },
            (Origin::Source(source), form) => ShapePiece::Text { source, form },
        };
        Self(rendering.text.pieces().map(piece).collect())
    }

    /// The rendering with the texts of a conversation.
    pub(super) fn fill(&self, conversation: &NumberedConversation<'_>) -> Rendered {
        let mut rendered = Rendered::default();
        for piece in &self.0 {
            let (source, text) = match piece {
                ShapePiece::Own(text) => {
                    rendered.text.push_str(text);
                    continue;
                }
                ShapePiece::Text { source, form } => {
                    let text = conversation.text(*source);
                    let text = match form {
                        Form::Trimmed { start, end } => Class::trim(text, *start, *end),
                        Form::Whole | Form::Derived => text,
                    };
                    (*source, text)
                }
                ShapePiece::Fixed { source, text } => (*source, &**text),
            };
            let start = rendered.text.len();
            rendered.text.push_str(text);
            if !text.is_empty() {
                let range = start..rendered.text.len();
                rendered.passages.push(Passage { range, author: conversation.author(source), source });
            }
        }
        rendered
    }
}

impl Bytes for std::sync::Arc<Shape> {
    fn bytes(&self) -> usize {
        let text = |piece: &ShapePiece| match piece {
            ShapePiece::Own(text) | ShapePiece::Fixed { text, .. } => text.len(),
            ShapePiece::Text { .. } => 0,
        };
        size_of_val(self.0.as_slice()) + self.0.iter().map(text).sum::<usize>()
    }
}
