//! Documents of an episode: set-up data of the environment and files mounted by the run.

use gymkhana_sdk::{Error, assets};
use serde::Deserialize;

/// Document, written as a line of JSON: `{"id": "d1", "title": "Rivers", "text": "…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Identifier for `fetch`.
    pub id: String,
    /// Title, one line.
    pub title: String,
    /// Complete text.
    pub text: String,
}

/// All documents, those of the environment first. An asset named `*.jsonl` contains one document per line; any other
/// asset is a document with the asset's name.
///
/// # Errors
/// Malformed lines, texts that are not UTF-8, and duplicate identifiers.
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
        Some(pair) => Err(Error::invalid(format!("two documents have the id `{}`; use unique ids", pair[0]))),
        None => Ok(documents),
    }
}

fn parse(origin: &str, bytes: &[u8]) -> Result<Vec<Document>, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::invalid(format!("{origin} is not UTF-8")))?;
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                Error::invalid(format!(
                    "{origin}, line {}, is not a document ({error}); write {{\"id\": …, \"title\": …, \"text\": …}}",
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
        // A byte order mark, as editors of some systems write it.
        let marked = [&b"\xef\xbb\xbf"[..], lines].concat();
        assert_eq!(load(Some(&marked)).map(|found| found.len()), Ok(2));
        let wrong = |bytes: &[u8]| format!("{:?}", load(Some(bytes)).expect_err("no documents"));
        assert!(wrong(b"{\"id\": \"a\"}").contains("line 1"));
        assert!(wrong(b"\xff").contains("UTF-8"));
        assert!(wrong(&[&lines[..], &lines[..]].concat()).contains("two documents have the id `a`"));
        assert_eq!(load(None).map(|found| found.len()), Ok(0));
    }
}
