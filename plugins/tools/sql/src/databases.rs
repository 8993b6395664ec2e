//! Databases of a session: `main`, prepared by the environment or a script, and mounted databases named after their
//! files. A statement can access only one database.

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, assets};
use gymkhana_sqlite::Database;

use crate::settings::Settings;

/// Name of the database that is not mounted.
const MAIN: &str = "main";

/// Named databases: the prepared one first, then the mounted ones by name.
pub struct Databases {
    all: Vec<(String, Database)>,
}

impl Databases {
    /// Opens all databases. If there are none, creates an empty `main`.
    ///
    /// # Errors
    ///
    /// Bytes that are neither an SQLite file nor a valid script, and duplicate names.
    pub fn load(setup: Option<&[u8]>, script: &str, settings: Settings) -> Result<Self, Error> {
        let mut all = vec![];
        let mounted = assets::names();
        if setup.is_some() || !script.is_empty() || mounted.is_empty() {
            let mut main = open("the environment's setup", setup.unwrap_or_default(), settings)?;
            main.extend(script, settings.access)
                .map_err(|error| Error::invalid(format!("option `script` fails: {error}")))?;
            all.push((MAIN.to_owned(), main));
        }
        for asset in mounted {
            let name = asset.name.rsplit_once('.').map_or(asset.name.as_str(), |(stem, _)| stem).to_owned();
            if all.iter().any(|(other, _)| *other == name) {
                let message =
                    format!("two databases have the name `{name}`; mount `{}` under another name", asset.name);
                return Err(Error::invalid(message));
            }
            let database = open(&format!("asset `{}`", asset.name), &assets::read_whole(&asset.name)?, settings)?;
            all.push((name, database));
        }
        Ok(Self { all })
    }

    /// Names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.all.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// All databases.
    pub fn each(&mut self) -> impl Iterator<Item = (&str, &mut Database)> {
        self.all.iter_mut().map(|(name, database)| (name.as_str(), database))
    }

    /// Database with this name, or the only one.
    ///
    /// # Errors
    ///
    /// Message that lists the databases, for an unknown name or an ambiguous choice.
    pub fn named(&mut self, name: Option<&str>) -> Result<&mut Database, String> {
        let place = match name {
            None if self.all.len() == 1 => Some(0),
            None => return Err(format!("which database? Write `database`, one of: {}", self.names().join(", "))),
            Some(name) => self.all.iter().position(|(known, _)| known == name),
        };
        match place {
            Some(place) => Ok(&mut self.all[place].1),
            None => {
                Err(format!("there is no database `{}`; there are: {}", name.unwrap_or(MAIN), self.names().join(", ")))
            }
        }
    }

    /// Writes the databases into a snapshot.
    pub fn write(&self, writer: Writer) -> Writer {
        let count = writer.integer(self.all.len() as u64);
        // If memory for an image is insufficient, an empty name marks the snapshot as unusable.
        self.all.iter().fold(count, |writer, (name, database)| match database.image() {
            Ok(image) => writer.text(name).bytes(&image),
            Err(_) => writer.text("").bytes(&[]),
        })
    }

    /// Reads the databases from a snapshot.
    ///
    /// # Errors
    ///
    /// Invalid bytes.
    pub fn read(reader: &mut Reader<'_>, settings: Settings) -> Result<Self, Error> {
        let mut all = vec![];
        for _ in 0..reader.integer()? {
            let name = reader.text()?.to_owned();
            if name.is_empty() {
                return Err(Error::bad_snapshot("the snapshot lacks a database: memory was insufficient"));
            }
            let database = Database::open(reader.bytes()?, settings.access, settings.limits)
                .map_err(|error| Error::bad_snapshot(format!("database `{name}` of the snapshot: {error}")))?;
            all.push((name, database));
        }
        Ok(Self { all })
    }
}

fn open(origin: &str, bytes: &[u8], settings: Settings) -> Result<Database, Error> {
    Database::open(bytes, settings.access, settings.limits)
        .map_err(|error| Error::invalid(format!("{origin} is not a database: {error}")))
}
