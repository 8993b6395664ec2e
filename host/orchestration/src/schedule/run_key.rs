//! Names of runs and servers on a bus of workers.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use gymkhana_registry::Digest;

/// Key of a run on the bus: names its streams and subjects. It is the same when the run is resumed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey(String);

impl RunKey {
    /// Longest key.
    const LONGEST: usize = 64;

    /// The key of the run in this folder: the folder's name, and a digest of its path and of the machine.
    #[must_use]
    pub fn of_folder(folder: &Path) -> Self {
        let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let machine = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        let digest = Digest::of(format!("{}\n{}", machine.trim(), path.display()).as_bytes()).to_string();
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let plain = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
        let plain: String = plain.take(32).collect();
        Self(format!("{plain}-{}", &digest[..12]))
    }

    /// The key of a server that writes no folder, by its name and a number.
    #[must_use]
    pub fn numbered(name: &str, number: u64) -> Self {
        Self(format!("{name}-{number:016x}"))
    }

    /// A key that a user or the bus gave.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        (!text.is_empty() && text.len() <= Self::LONGEST && text.chars().all(is_plain)).then(|| Self(text.to_owned()))
    }
}

impl Display for RunKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_plain_and_differ_by_folder() {
        let key = RunKey::of_folder(Path::new("out/My Run.v2"));
        assert!(key.to_string().starts_with("my-run-v2-"), "{key}");
        assert_eq!(RunKey::parse(&key.to_string()), Some(key.clone()));
        assert_ne!(RunKey::of_folder(Path::new("other/My Run.v2")), key);
        for wrong in ["", "a.b", "a b", "A", ">", &"a".repeat(65)] {
            assert_eq!(RunKey::parse(wrong), None, "{wrong}");
        }
    }
}
