//! HTML of the pages. Every function escapes the texts that it is given.

use std::fmt::Write as _;

use gymkhana_registry::misleads;

/// A page with a title, which is also its heading, and this HTML as its body.
pub(super) fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n</head>\n\
         <body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// A heading of a section.
pub(super) fn heading(text: &str) -> String {
    format!("<h2>{}</h2>\n", escape(text))
}

/// A paragraph.
pub(super) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// A table with a head; `empty` if it has no rows.
pub(super) fn table<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
    empty: &str,
) -> String {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return paragraph(empty);
    }
    let mut table = format!("<table>\n<tr><th>{}</th></tr>\n", head.map(escape).join("</th><th>"));
    for row in rows {
        let cells = row.map(|cell| escape(&cell)).join("</td><td>");
        // Writing to a string does not fail.
        let _ = writeln!(table, "<tr><td>{cells}</td></tr>");
    }
    table + "</table>\n"
}

/// A table whose last column keeps line breaks.
pub(super) fn transcript<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = format!("<table>\n<tr><th>{}</th></tr>\n", head.map(escape).join("</th><th>"));
    for row in rows {
        let lines = |cell: String| cell.lines().map(escape).collect::<Vec<_>>().join("<br>");
        // Writing to a string does not fail.
        let _ = writeln!(table, "<tr><td>{}</td></tr>", row.map(lines).join("</td><td>"));
    }
    table + "</table>\n"
}

/// Items separated by commas, or `none`.
pub(super) fn joined(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// Escapes a text for HTML: its markup characters, and characters that mislead.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            _ if misleads(character) => escaped.extend(character.escape_default()),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_direction_marks_are_escaped() {
        assert_eq!(escape("<b a='1' c=\"2\">&amp;"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
        assert_eq!(escape("a\u{202e}b\nc\u{0}"), "a\\u{202e}b\\nc\\u{0}");
        assert_eq!(escape("ä 漢字"), "ä 漢字");
    }

    #[test]
    fn a_transcript_keeps_its_lines() {
        let shown = transcript(["a"], [["x\n<b>\ry".to_owned()]]);
        assert!(shown.contains("<td>x<br>&lt;b&gt;\\ry</td>"), "{shown}");
    }

    #[test]
    fn every_part_escapes_its_texts() {
        let hostile = || "<i>".to_owned();
        let parts = [
            document("<i>", ""),
            heading("<i>"),
            paragraph("<i>"),
            table(["<i>"], [[hostile()]], ""),
            table(["a"], [], "<i>"),
            transcript(["<i>"], [[hostile()]]),
        ];
        for part in parts {
            assert!(part.contains("&lt;i&gt;") && !part.contains("<i>"), "{part}");
        }
    }
}
