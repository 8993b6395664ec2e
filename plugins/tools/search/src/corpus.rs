//! The documents: those that the environment prepared for this episode, and those that the run mounts.

use gymkhana_sdk::{Error, assets};
use serde::Deserialize;

/// One document. Written as a line of JSON, `{"id": "d1", "title": "Rivers", "text": "…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// What `fetch` asks for.
    pub id: String,
    /// One line.
    pub title: String,
    /// All of it.
    pub text: String,
}

/// Every document, prepared ones first. An asset whose name ends in `.jsonl` holds documents line by line; another one
/// is a document itself, by its name.
///
/// # Errors
/// If a line is no document, a text is not UTF-8, or two documents have one id.
pub fn load(setup: Option<&[u8]>) -> Result<Vec<Document>, Error> {
    let mut documents = setup.map_or(Ok(vec![]), |bytes| parse("the environment's setup", bytes))?;
    for asset in assets::names() {
        let bytes = assets::read_whole(&asset.name)?;
        if asset.name.ends_with(".jsonl") {
            documents.extend(parse(&format!("asset `{}`", asset.name), &bytes)?);
        } else {
            let text = String::from_utf8(bytes)
                .map_err(|_| Error::invalid(format!("asset `{}` is not UTF-8; mount texts", asset.name)))?;
            documents.push(Document { id: asset.name.clone(), title: asset.name, text });
        }
    }
    let mut ids: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::invalid(format!("two documents have the id `{}`; give each its own", pair[0]))),
        None => Ok(documents),
    }
}

fn parse(origin: &str, bytes: &[u8]) -> Result<Vec<Document>, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::invalid(format!("{origin} is not UTF-8")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                Error::invalid(format!(
                    "{origin}, line {}, is no document ({error}); write {{\"id\": …, \"title\": …, \"text\": …}}",
                    number + 1
                ))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_documents_or_named() {
        let lines = b"{\"id\": \"a\", \"title\": \"A\", \"text\": \"x\"}\n\n{\"id\": \"b\", \"title\": \"B\", \"text\": \"y\"}\n";
        let ids: Vec<String> = load(Some(lines)).expect("documents").into_iter().map(|found| found.id).collect();
        assert_eq!(ids, ["a", "b"]);
        let wrong = |bytes: &[u8]| format!("{:?}", load(Some(bytes)).expect_err("no documents"));
        assert!(wrong(b"{\"id\": \"a\"}").contains("line 1"));
        assert!(wrong(b"\xff").contains("UTF-8"));
        assert!(wrong(&[&lines[..], &lines[..]].concat()).contains("two documents have the id `a`"));
        assert_eq!(load(None).map(|found| found.len()), Ok(0));
    }
}
