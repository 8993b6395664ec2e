//! The memory that all roles share: what the environment showed and what each role wrote, in order.

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Content, Error, Media, Part, text};

use crate::workflow::{NAMES, Role, Source};

/// An entry of the memory.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    source: Source,
    content: Content,
}

/// The entries, and how many of them each seat has seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    entries: Vec<Entry>,
    seen: [usize; NAMES.len()],
}

impl Memory {
    /// Adds an entry.
    pub fn add(&mut self, source: Source, content: Content) {
        self.entries.push(Entry { source, content });
    }

    /// Marks all entries as seen by a seat.
    pub fn mark_seen(&mut self, seat: u32) {
        self.seen[seat as usize] = self.entries.len();
    }

    /// What a role sees when it gets the move: its instruction, and the entries that it reads and has not seen. Its own
    /// messages are in its conversation already.
    pub fn show(&mut self, role: &Role) -> Content {
        let mut shown = Content::new();
        let mut words: Vec<String> =
            Some(role.instruction.clone()).filter(|words| !words.is_empty()).into_iter().collect();
        for Entry { source, content } in &self.entries[self.seen[role.seat as usize]..] {
            if *source == Source::Role(role.seat) || !role.reads.contains(source) {
                continue;
            }
            words.push(format!("{}:", title(*source)));
            for part in content {
                match part {
                    Part::Text(text) => words.push(text.clone()),
                    media => {
                        shown.extend(text(words.join("\n")));
                        words.clear();
                        shown.push(media.clone());
                    }
                }
            }
        }
        if words.is_empty() && shown.is_empty() {
            words.push("Continue.".to_owned());
        }
        if !words.is_empty() {
            shown.extend(text(words.join("\n")));
        }
        self.mark_seen(role.seat);
        shown
    }

    /// Appends the memory to a snapshot.
    pub fn write(&self, writer: Writer) -> Writer {
        let seen = self.seen.iter().fold(writer, |writer, seen| writer.integer(*seen as u64));
        let entries = seen.integer(self.entries.len() as u64);
        self.entries.iter().fold(entries, |writer, entry| {
            let writer = writer.integer(number(entry.source)).integer(entry.content.len() as u64);
            entry.content.iter().fold(writer, write_part)
        })
    }

    /// Reads what [`Memory::write`] wrote.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let mut seen = [0; NAMES.len()];
        for seen in &mut seen {
            *seen = reader.integer()? as usize;
        }
        let count = reader.integer()?;
        let entry = |_| {
            let source = source(reader.integer()?)?;
            let parts = reader.integer()?;
            let content = (0..parts).map(|_| read_part(reader)).collect::<Result<Content, Error>>()?;
            Ok(Entry { source, content })
        };
        let entries = (0..count).map(entry).collect::<Result<Vec<Entry>, Error>>()?;
        if seen.iter().any(|seen| *seen > entries.len()) {
            return Err(Error::bad_snapshot("a role of the snapshot has seen more than there is"));
        }
        Ok(Self { entries, seen })
    }
}

fn title(source: Source) -> &'static str {
    match source {
        Source::Task => "Task",
        Source::Environment => "Environment",
        Source::Role(seat) => NAMES[seat as usize],
    }
}

/// Number of a source in snapshots.
fn number(source: Source) -> u64 {
    match source {
        Source::Task => 0,
        Source::Environment => 1,
        Source::Role(seat) => 2 + u64::from(seat),
    }
}

fn source(number: u64) -> Result<Source, Error> {
    match number {
        0 => Ok(Source::Task),
        1 => Ok(Source::Environment),
        seat if seat - 2 < NAMES.len() as u64 => Ok(Source::Role((seat - 2) as u32)),
        other => Err(Error::bad_snapshot(format!("an entry of the snapshot has the unknown source {other}"))),
    }
}

fn write_part(writer: Writer, part: &Part) -> Writer {
    let media = |writer: Writer, kind, media: &Media| writer.integer(kind).text(&media.mime).bytes(&media.bytes);
    match part {
        Part::Text(text) => writer.integer(0).text(text),
        Part::Image(image) => media(writer, 1, image),
        Part::Audio(audio) => media(writer, 2, audio),
        Part::Video(video) => media(writer, 3, video),
        Part::Other(other) => media(writer, 4, other),
    }
}

fn read_part(reader: &mut Reader<'_>) -> Result<Part, Error> {
    let kind = reader.integer()?;
    if kind == 0 {
        return Ok(Part::Text(reader.text()?.to_owned()));
    }
    let media = Media { mime: reader.text()?.to_owned(), bytes: reader.bytes()?.to_vec() };
    Ok(match kind {
        1 => Part::Image(media),
        2 => Part::Audio(media),
        3 => Part::Video(media),
        4 => Part::Other(media),
        kind => return Err(Error::bad_snapshot(format!("a part of the snapshot is of the unknown kind {kind}"))),
    })
}
