//! Rows of the asset: read one at a time from a file of `host data import`, or all at once from a small file with JSON
//! lines.

use std::collections::{BTreeMap, HashMap};

use gymkhana_rows::{ReadAt, ReadError, Reader, Row, is_rows, split_of};
use gymkhana_sdk::environment::Split;
use gymkhana_sdk::{Error, Task, assets};

/// Largest file with JSON lines, in bytes: every instance holds its rows.
const MAX_LINES_BYTES: u64 = 16 << 20;

/// Remedy for a line of another shape.
const OTHER_SHAPES: &str = "`host data import FILE` reads more shapes, such as `question` and `answer`";

/// Rows by split.
pub enum Data {
    /// A file of rows.
    Indexed(Reader<Asset>),
    /// Rows in memory.
    Lines(BTreeMap<String, Vec<Row>>),
}

/// A mounted file.
pub struct Asset {
    name: String,
    size: u64,
}

impl ReadAt for Asset {
    type Error = Error;

    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, position: u64, length: u32) -> Result<Vec<u8>, Error> {
        assets::read(&self.name, position, length)
    }
}

impl Data {
    /// Opens the asset. `test_percent` is the share of the JSON lines without `split` that form the split `test`.
    pub fn open(name: &str, test_percent: u64) -> Result<Self, Error> {
        let Some(info) = assets::names().into_iter().find(|info| info.name == name) else {
            return Err(Error::invalid(format!(
                "the run mounts no asset `{name}`; add `[plugins.dataset]` with `assets = {{ \"{name}\" = \"FILE\" }}`"
            )));
        };
        let asset = Asset { name: name.to_owned(), size: info.size };
        if is_rows(&asset.read_at(0, 8)?) {
            return Reader::open(asset).map(Self::Indexed).map_err(|error| read_error(name, error));
        }
        if info.size > MAX_LINES_BYTES {
            return Err(Error::invalid(format!(
                "asset `{name}` has {} MiB of JSON lines, but the limit is {}; import it with `host data import`",
                info.size >> 20,
                MAX_LINES_BYTES >> 20
            )));
        }
        parse_lines(name, &assets::read_whole(name)?, test_percent).map(Self::Lines).map_err(Error::invalid)
    }

    /// Splits with their numbers of tasks.
    pub fn splits(&self) -> Vec<Split> {
        match self {
            Self::Indexed(reader) => reader.splits().iter().map(|split| Split::of(&split.name, split.rows)).collect(),
            Self::Lines(splits) => splits.iter().map(|(name, rows)| Split::of(name, rows.len() as u64)).collect(),
        }
    }

    /// Row of a task.
    pub fn row(&self, task: &Task) -> Result<Row, Error> {
        let splits = self.splits();
        let Some(place) = splits.iter().position(|split| split.name == task.split) else {
            let known: Vec<&str> = splits.iter().map(|split| split.name.as_str()).collect();
            return Err(Error::no_split(task, &known));
        };
        let missing =
            |rows: u64| Error::not_found(format!("split `{}` has {rows} tasks, not task {}", task.split, task.index));
        match self {
            Self::Lines(splits) => {
                let rows = splits.get(&task.split).map_or(&[][..], |rows| rows);
                let row = usize::try_from(task.index).ok().and_then(|index| rows.get(index));
                row.cloned().ok_or_else(|| missing(rows.len() as u64))
            }
            Self::Indexed(reader) => {
                let line = reader.row(place, task.index).map_err(|error| match error {
                    ReadError::NoRow { rows, .. } => missing(rows),
                    other => read_error("the asset", other),
                })?;
                Row::parse(&line).map_err(|wrong| Error::invalid(format!("row {} of the asset: {wrong}", task.index)))
            }
        }
    }
}

fn read_error(name: &str, error: ReadError<Error>) -> Error {
    match error {
        ReadError::Source(error) => error,
        other => Error::invalid(format!("asset `{name}`: {other}; import it again with `host data import`")),
    }
}

/// Rows by split. Without a column `split`, `test_percent` of the tasks, chosen by the hash of their last message, form
/// `test` and the others `train`.
fn parse_lines(file: &str, bytes: &[u8], test_percent: u64) -> Result<BTreeMap<String, Vec<Row>>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("asset `{file}` is not UTF-8"))?;
    let mut splits: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut seen: HashMap<String, (usize, String)> = HashMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("asset `{file}`, line {}", index + 1);
        let row = Row::parse(line.as_bytes()).map_err(|wrong| format!("{place}: {wrong}; {OTHER_SHAPES}"))?;
        let prompt = row.messages.last().map_or("", |message| &message.content);
        let split = row.split.clone().unwrap_or_else(|| split_of(prompt, test_percent).to_owned());
        match seen.get(prompt) {
            Some((first, other)) if *other != split => {
                return Err(format!("{place}: split `{split}` repeats the prompt of line {first}, split `{other}`"));
            }
            Some(_) => {}
            None => {
                seen.insert(prompt.to_owned(), (index + 1, split.clone()));
            }
        }
        splits.entry(split).or_default().push(row);
    }
    if splits.is_empty() { Err(format!("asset `{file}` has no lines")) } else { Ok(splits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lines_are_named_by_number() {
        let wrong = |text: &str| parse_lines("q.jsonl", text.as_bytes(), 10).expect_err("a wrong line");
        let first = "{\"prompt\": \"a\", \"split\": \"train\"}\n\n";
        assert!(wrong(&format!("{first}[1]")).starts_with("asset `q.jsonl`, line 3: no object"));
        let neither = wrong(&format!("{first}{{\"answer\": \"b\"}}"));
        assert!(
            neither.contains(
                "line 3: there is neither `prompt` nor `messages`; `host data import FILE` reads more shapes"
            ),
            "{neither}"
        );
        let repeated = wrong(&format!("{first}{{\"prompt\": \"a\", \"split\": \"test\"}}"));
        assert!(repeated.ends_with("line 3: split `test` repeats the prompt of line 1, split `train`"), "{repeated}");
        assert!(wrong("\n").contains("has no lines"));
        assert!(parse_lines("q.jsonl", b"\xff", 10).is_err_and(|wrong| wrong.contains("UTF-8")));
    }

    #[test]
    fn splits_follow_the_column_or_the_percentage() {
        let lines: String = (0..1000).map(|number| format!("{{\"prompt\": \"question {number}\"}}\n")).collect();
        let sizes = |percent: u64| {
            let splits = parse_lines("q.jsonl", lines.as_bytes(), percent).expect("rows");
            let size = |name: &str| splits.get(name).map_or(0, Vec::len);
            (size("train"), size("test"))
        };
        assert_eq!((sizes(0), sizes(100)), ((1000, 0), (0, 1000)));
        let (train, test) = sizes(10);
        assert!(train + test == 1000 && (50..200).contains(&test), "{test}");
        let named = parse_lines("q.jsonl", b"{\"prompt\": \"a\", \"split\": \"dev\"}", 100).expect("rows");
        assert_eq!(named.keys().collect::<Vec<_>>(), ["dev"]);
    }
}
