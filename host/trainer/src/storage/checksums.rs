//! `SHA256SUMS` of a checkpoint: the digest of every other file, in the format of `sha256sum --check`.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::TrainerError;
use crate::storage::{read_text, write_synced};

/// Name of the list.
pub const FILE: &str = "SHA256SUMS";

/// Writes the list for these files of a folder, given by their paths below it.
pub(crate) fn write(folder: &Path, names: &BTreeSet<String>) -> Result<(), TrainerError> {
    let mut text = String::new();
    for name in names {
        text += &format!("{}  {name}\n", digest(&folder.join(name))?);
    }
    write_synced(&folder.join(FILE), text.as_bytes())
}

/// Verifies every file of the list and returns their names; `None` if the folder has no list.
pub(crate) fn verify(folder: &Path) -> Result<Option<BTreeSet<String>>, TrainerError> {
    let list = folder.join(FILE);
    if !list.is_file() {
        return Ok(None);
    }
    let damaged = |problem: String| TrainerError::Folder {
        path: folder.to_owned(),
        problem: format!("{problem}\nhint: use another checkpoint"),
    };
    let text = read_text(&list)?;
    let mut names = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let Some((expected, name)) = line.split_once("  ").filter(|(_, name)| is_name(name)) else {
            let line = index + 1;
            return Err(damaged(format!(
                "line {line} of `{FILE}` is not a digest and the name of a file in the folder"
            )));
        };
        let file = folder.join(name);
        if !file.is_file() {
            return Err(damaged(format!("`{name}`, which `{FILE}` lists, is missing")));
        }
        if digest(&file)? != expected {
            return Err(damaged(format!("`{name}` or its digest in `{FILE}` was changed after it was written")));
        }
        names.insert(name.to_owned());
    }
    Ok(Some(names))
}

/// Whether a text is a relative path of plain names, so that it stays inside of the folder.
fn is_name(text: &str) -> bool {
    let plain = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !part.is_empty() && part != "." && part != ".." && part.bytes().all(allowed)
    };
    text.split('/').all(plain)
}

/// SHA-256 of a file as hexadecimal digits.
fn digest(path: &Path) -> Result<String, TrainerError> {
    let mut sha = Sha256::new();
    let mut read = || std::io::copy(&mut File::open(path)?, &mut sha);
    read().map_err(TrainerError::file("read", path))?;
    Ok(sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digest of "abc", the example of FIPS 180-4.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn lists_are_those_of_sha256sum() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("config.json"), "abc").expect("written");
        assert_eq!(verify(folder.path()).expect("no list"), None);
        let names = BTreeSet::from(["config.json".to_owned()]);
        write(folder.path(), &names).expect("written");
        let text = std::fs::read_to_string(folder.path().join(FILE)).expect("read");
        assert_eq!(text, format!("{ABC}  config.json\n"));
        assert_eq!(verify(folder.path()).expect("whole"), Some(names));
    }

    #[test]
    fn paths_out_of_the_folder_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("1-000001");
        std::fs::create_dir(&inside).expect("made");
        std::fs::write(folder.path().join("config.json"), "abc").expect("written");
        for name in ["../config.json", "/config.json", "..", ".", "", "a//b", "a/../../config.json", "config.json\u{b}"]
        {
            std::fs::write(inside.join(FILE), format!("{ABC}  {name}\n")).expect("written");
            let error = verify(&inside).expect_err(name).to_string();
            assert!(error.contains("line 1 of `SHA256SUMS` is not a digest and the name of a file"), "{error}");
        }
    }
}
