//! The entries of an asset, and a search among their titles.

use gymkhana_ranking::Ranking;
use gymkhana_sdk::{Error, assets};

use crate::entry::Entry;

/// Largest asset, in bytes: every instance reads it.
const MAX_BYTES: u64 = 4 << 20;

/// Entries with the index of their titles.
pub struct Shelf {
    entries: Vec<Entry>,
    ranking: Ranking,
}

impl Shelf {
    /// The entries of a mounted asset.
    ///
    /// # Errors
    /// No such asset, an asset that is too large, and wrong lines.
    pub fn open(name: &str) -> Result<Self, Error> {
        let Some(info) = assets::names().into_iter().find(|info| info.name == name) else {
            return Err(Error::invalid(format!(
                "the run mounts no asset `{name}`; add `[plugins.library]` with `assets = {{ \"{name}\" = \"FILE\" }}`"
            )));
        };
        if info.size > MAX_BYTES {
            let mib = info.size.div_ceil(1 << 20);
            return Err(Error::invalid(format!(
                "asset `{name}` has {mib} MiB, but the limit is {}; export fewer episodes",
                MAX_BYTES >> 20
            )));
        }
        Self::parse(name, &assets::read_whole(name)?).map_err(Error::invalid)
    }

    /// Entries of JSON lines. A later line replaces an earlier one with the same title, so that files can be appended.
    fn parse(name: &str, bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| format!("asset `{name}` is not UTF-8"))?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let entry = Entry::parse(line).map_err(|wrong| format!("asset `{name}`, line {}: {wrong}", index + 1))?;
            match places.get(&entry.title) {
                Some(place) => entries[*place] = entry,
                None => {
                    places.insert(entry.title.clone(), entries.len());
                    entries.push(entry);
                }
            }
        }
        let ranking = Ranking::new(&entries.iter().map(|entry| entry.title.as_str()).collect::<Vec<_>>());
        Ok(Self { entries, ranking })
    }

    /// At most `most` entries whose titles resemble a task, the best first. With `itself` the entry of the same task is
    /// among them.
    pub fn search(&self, task: &str, most: usize, itself: bool) -> Vec<&Entry> {
        let found = self.ranking.search(task).into_iter().filter_map(|place| self.entries.get(place));
        found.filter(|entry| itself || entry.title.trim() != task.trim()).take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf(lines: &[(&str, &str)]) -> Shelf {
        let line = |(title, text): &(&str, &str)| format!("{{\"title\": \"{title}\", \"text\": \"{text}\"}}\n\n");
        Shelf::parse("a", lines.iter().map(line).collect::<String>().as_bytes())
            .unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    fn found<'s>(shelf: &'s Shelf, task: &str, most: usize, itself: bool) -> Vec<&'s str> {
        shelf.search(task, most, itself).iter().map(|entry| entry.text.as_str()).collect()
    }

    #[test]
    fn the_nearest_titles_lead_and_the_task_itself_is_left_out() {
        let shelf = shelf(&[("two red apples", "1"), ("two pears", "2"), ("a red boat", "3"), ("seven", "4")]);
        assert_eq!(found(&shelf, "three red apples", 2, false), ["1", "3"]);
        assert_eq!(found(&shelf, " two pears ", 9, false), ["1"]);
        assert_eq!(found(&shelf, "two pears", 9, true), ["2", "1"]);
        assert_eq!(found(&shelf, "zebra", 9, true), Vec::<&str>::new());
    }

    #[test]
    fn a_later_line_replaces_the_one_of_the_same_title() {
        let shelf = shelf(&[("two pears", "old"), ("a boat", "3"), ("two pears", "new")]);
        assert_eq!(found(&shelf, "pears", 9, true), ["new"]);
        assert_eq!(shelf.entries.len(), 2);
    }

    #[test]
    fn an_empty_library_finds_nothing_and_wrong_lines_are_named() {
        assert_eq!(found(&shelf(&[]), "pears", 9, true), Vec::<&str>::new());
        let wrong = |bytes: &[u8]| Shelf::parse("a", bytes).err().unwrap_or_default();
        assert!(wrong(b"{\"title\": \"a\", \"text\": \"b\"}\n\n[]").starts_with("asset `a`, line 3: there is neither"));
        assert_eq!(wrong(b"\xff"), "asset `a` is not UTF-8");
    }
}
