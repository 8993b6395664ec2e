//! Content of agents and plugins as HTML: escaped text, and images that cannot run anything.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gymkhana_record::{Media, NamedValue, Part, Value};
use maud::{Markup, html};

use crate::words::{counted, number, visible};

/// Images that are shown. As the source of an `img`, a drawing in SVG runs no script and loads nothing.
const IMAGES: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"];
/// Largest image that is shown, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Longest text that is shown, in bytes.
const MAX_TEXT: usize = 256 << 10;

/// A text in the writing of its author.
pub(crate) fn text(text: &str) -> Markup {
    let shown = &text[..text.floor_char_boundary(MAX_TEXT)];
    html! {
        pre.text dir="auto" { (visible(shown)) }
        @if shown.len() < text.len() { p.note { (text.len() - shown.len()) " more bytes are not shown" } }
    }
}

/// The parts of a message.
pub(crate) fn content(parts: &[Part]) -> Markup {
    html! {
        @for part in parts {
            @match part {
                Part::Text(words) => (text(words)),
                Part::Image(shown) | Part::Audio(shown) | Part::Video(shown) | Part::Other(shown) => (media(shown)),
            }
        }
    }
}

fn media(media: &Media) -> Markup {
    let known = IMAGES.into_iter().find(|mime| *mime == media.mime).filter(|_| media.bytes.len() <= MAX_BYTES);
    html! {
        @match known {
            Some(mime) => {
                img.render src=(format!("data:{mime};base64,{}", STANDARD.encode(&media.bytes)))
                    alt=(format!("Image of type {mime}, {}", counted(media.bytes.len(), "byte")));
            },
            None => p.note { "[" (visible(&media.mime)) ", " (counted(media.bytes.len(), "byte")) "]" },
        }
    }
}

/// Named values as a list.
pub(crate) fn facts(facts: &[NamedValue]) -> Markup {
    html! {
        dl.facts {
            @for fact in facts {
                dt { (visible(&fact.name)) }
                dd { (value(&fact.value)) }
            }
        }
    }
}

fn value(value: &Value) -> Markup {
    html! {
        @match value {
            Value::Flag(flag) => (flag),
            Value::Integer(integer) => (integer),
            Value::Number(value) => (number(*value)),
            Value::Text(words) | Value::Other(words) => (text(words)),
            Value::Bytes(bytes) => (counted(bytes.len(), "byte")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_of_known_types_are_shown() {
        let part = |mime: &str| Part::Image(Media { mime: mime.to_owned(), bytes: b"<svg onload=alert(1)>".to_vec() });
        let drawing = content(&[part("image/svg+xml")]).into_string();
        // The base64 of the bytes, by `printf '<svg onload=alert(1)>' | base64`.
        assert!(drawing.contains(r#"src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+""#), "{drawing}");
        assert!(!drawing.contains("onload"));
        for mime in ["text/html", "image/svg+xml;charset=x", "image/png\" onerror=\"x", "application/pdf"] {
            let shown = content(&[part(mime)]).into_string();
            assert!(!shown.contains("<img") && !shown.contains("<svg"), "{shown}");
        }
    }

    #[test]
    fn texts_are_escaped_and_cut() {
        let hostile = "</pre><script>alert(1)</script>\u{202e}&quot;";
        let shown = text(hostile).into_string();
        assert!(shown.contains("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}&amp;quot;"), "{shown}");
        let long = "ä".repeat(MAX_TEXT);
        assert!(text(&long).into_string().contains(&format!("{MAX_TEXT} more bytes")));
    }
}
