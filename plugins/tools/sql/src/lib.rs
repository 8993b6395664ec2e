//! SQL tool: queries databases and shows rows as a table. Errors of a statement are answers with SQLite's message.

mod databases;
mod schema;
mod settings;
mod table;

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::tool::{Answer, FinalView, Info, Snapshot, Tool};
use gymkhana_sdk::{Call, Error, Function, NamedValue, Parameters, Value, named, plugin};
use gymkhana_sqlite::{Keep, Outcome};

use databases::Databases;
use settings::{Options, Settings};

/// Maximum size of the values that one call keeps, in bytes.
const KEPT: usize = 1 << 20;

/// Session: its databases and the statistics of its calls.
pub struct Sql {
    settings: Settings,
    databases: Databases,
    asked: Asked,
}

/// Facts about a session for rewards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Asked {
    statements: u64,
    errors: u64,
    /// Error of the last call, or empty.
    error: String,
    /// Rows of the last table, as JSON.
    result: String,
}

impl Tool for Sql {
    type Options = Options;

    fn info() -> Info {
        Info::new("SQL over an episode's or a run's databases")
    }

    fn functions(options: &Options) -> Result<Vec<Function>, Error> {
        let which = "which database, by its name; may be left out where there is one";
        let query = Parameters::new().text("sql", "one statement of SQLite's SQL, or several with ; between them");
        let about = if options.read_only {
            "Runs SQL and shows the rows. The database is read-only."
        } else {
            "Runs SQL and shows the rows. Changes last to the end of the episode."
        };
        let schema = Parameters::new().text("table", "one table; all if left out").optional();
        Ok(vec![
            Function::new("query", about, query.text("database", which).optional()),
            Function::new(
                "schema",
                "Shows the tables, their columns and how many rows they have.",
                schema.text("database", which).optional(),
            ),
        ])
    }

    fn open(setup: Option<Vec<u8>>, options: &Options, _seed: u64) -> Result<Self, Error> {
        let settings = Settings::of(options);
        let databases = Databases::load(setup.as_deref(), &options.script, settings)?;
        Ok(Self { settings, databases, asked: Asked::default() })
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        Ok(match call.name.as_str() {
            "query" => self.query(call).into(),
            "schema" => self.schema(call).into(),
            _ => Answer::no_function(call),
        })
    }
}

impl Sql {
    fn query(&mut self, call: &Call) -> Result<String, String> {
        let sql = call.text("sql")?;
        let settings = self.settings;
        let database = self.databases.named(optional(call, "database")?.as_deref())?;
        let keep = Keep { rows: settings.rows, bytes: KEPT };
        let (done, error) = match database.run(&sql, keep) {
            Ok(done) => (done, None),
            Err(failure) => (failure.done, Some(failure.message)),
        };
        self.asked.note(&done, error.as_deref());
        let shown = table::show(&done, settings.look());
        match error {
            None if done.is_empty() => Err("there is no statement in `sql`".to_owned()),
            None => Ok(shown),
            Some(error) if done.is_empty() => Err(format!("error: {error}")),
            Some(error) => Err(format!("{shown}\n\nerror in statement {}: {error}", done.len() + 1)),
        }
    }

    fn schema(&mut self, call: &Call) -> Result<String, String> {
        let table = optional(call, "table")?;
        let wanted = optional(call, "database")?;
        let most = self.settings.answer_bytes;
        let shown = match (&wanted, self.databases.names().len()) {
            (None, 2..) => {
                let all = self.databases.each().map(|(name, database)| {
                    schema::show(database, table.as_deref()).map(|text| format!("-- database {name}\n{text}"))
                });
                all.collect::<Result<Vec<_>, _>>()?.join("\n\n")
            }
            _ => schema::show(self.databases.named(wanted.as_deref())?, table.as_deref())?,
        };
        Ok(table::cut(&shown, most))
    }
}

impl Asked {
    fn note(&mut self, done: &[Outcome], error: Option<&str>) {
        self.statements += done.len() as u64 + u64::from(error.is_some());
        self.errors += u64::from(error.is_some());
        self.error = error.unwrap_or_default().to_owned();
        let last = done.iter().rev().find_map(|outcome| match outcome {
            Outcome::Table(table) => Some(table::json(table)),
            Outcome::Changed(_) => None,
        });
        self.result = last.unwrap_or_else(|| std::mem::take(&mut self.result));
    }
}

impl Snapshot for Sql {
    fn snapshot(&self) -> Vec<u8> {
        let Asked { statements, errors, error, result } = &self.asked;
        let writer = self.databases.write(self.settings.write(Writer::new()));
        writer.integer(*statements).integer(*errors).text(error).text(result).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let settings = Settings::read(&mut reader)?;
        let databases = Databases::read(&mut reader, settings)?;
        let (statements, errors) = (reader.integer()?, reader.integer()?);
        let (error, result) = (reader.text()?.to_owned(), reader.text()?.to_owned());
        reader.end()?;
        Ok(Self { settings, databases, asked: Asked { statements, errors, error, result } })
    }
}

impl FinalView for Sql {
    fn final_view(&self) -> Vec<NamedValue> {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        vec![
            named("statements", count(self.asked.statements)),
            named("errors", count(self.asked.errors)),
            named("error", self.asked.error.as_str()),
            named("result", Value::Other(self.asked.result.clone())),
        ]
    }
}

/// Optional text argument.
fn optional(call: &Call, name: &str) -> Result<Option<String>, String> {
    call.has(name).then(|| call.text(name)).transpose()
}

plugin! { tool: Sql { snapshot, final_view } }

#[cfg(test)]
mod tests;
