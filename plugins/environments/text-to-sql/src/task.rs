//! Task: a schema, a question, and databases of that schema with different rows.

use gymkhana_sdk::{Rng, hash};
use gymkhana_sqlite::Value;

use crate::judge::{alike, ask, database};
use crate::question::{Kind, Question};
use crate::rows;
use crate::schema::Schema;

/// Share of tasks in the test split, as 1 of this many.
const HELD_OUT: u64 = 8;
/// Databases of a task: the visible one, and more that only the judge uses.
const DATABASES: u64 = 4;
/// Maximum number of rows of an answer.
const MAX_ROWS: u64 = 60;
/// Maximum number of draws to find a sound task.
const TRIES: u32 = 2_000;

/// Task with its databases.
pub struct Task {
    /// Question.
    pub question: Question,
    /// Statements that create the tables.
    pub create: String,
    schema: Schema,
    seed: u64,
    rows: u64,
}

impl Task {
    /// Task at an index of a split; equal indices give equal tasks.
    ///
    /// # Errors
    ///
    /// Message if no sound task is found, a bug of this plugin.
    pub fn at(test: bool, index: u64, kind: Option<Kind>, rows: u64) -> Result<Self, String> {
        let split = if test { "test" } else { "train" };
        let wanted = kind.map_or("mixed", Kind::name);
        let mut rng = Rng::new(hash(format!("{split}/{index}/{wanted}/{rows}").as_bytes()));
        let mut last = "nothing was drawn".to_owned();
        for _ in 0..TRIES {
            let task = Self::draw(&mut rng, kind, rows);
            if task.is_held_out() != test {
                continue;
            }
            match task.check() {
                Ok(()) => return Ok(task),
                Err(why) => last = why,
            }
        }
        Err(format!("found no sound task in {TRIES} tries: {last}"))
    }

    /// The text determines the split, so the splits share no task.
    pub fn is_held_out(&self) -> bool {
        hash(format!("{}{}", self.create, self.question.text).as_bytes()).is_multiple_of(HELD_OUT)
    }

    /// Script of one of the databases; number 0 is the visible one.
    pub fn script(&self, number: u64) -> String {
        let mut rng = Rng::new(hash(format!("{}/{number}", self.seed).as_bytes()));
        format!("{}{}", self.create, rows::insert(&self.schema, &mut rng, self.rows))
    }

    /// Whether a query gives the expected result in every database.
    ///
    /// # Errors
    ///
    /// Message for the author of a query that fails.
    pub fn judge(&self, query: &str) -> Result<bool, String> {
        let mut right = true;
        for number in 0..DATABASES {
            let mut database = database(&self.script(number))?;
            // A query that runs in the visible database but fails in another one is wrong there.
            let given = match ask(&mut database, query) {
                Ok(given) => given,
                Err(why) if number == 0 => return Err(why),
                Err(_) => return Ok(false),
            };
            let wanted = ask(&mut database, &self.question.sql)?;
            right &= alike(&wanted, &given, self.question.ordered);
        }
        Ok(right)
    }

    fn draw(rng: &mut Rng, kind: Option<Kind>, rows: u64) -> Self {
        let kind = kind.unwrap_or_else(|| rng.pick(&Kind::ALL).1);
        let schema = Schema::draw(rng);
        let question = Question::draw(rng, &schema, kind);
        Self { question, create: schema.create(), schema, seed: rng.bits(), rows }
    }

    /// Checks that the question has an answer of acceptable length that depends on the rows: if all databases gave the
    /// same answer, a constant would pass.
    fn check(&self) -> Result<(), String> {
        let answer = |number| ask(&mut database(&self.script(number))?, &self.question.sql);
        let shown = answer(0)?;
        if shown.total > MAX_ROWS {
            return Err(format!("{} rows answer it", shown.total));
        }
        if shown.rows.iter().flatten().all(|value| *value == Value::Null) {
            return Err("nothing answers it".to_owned());
        }
        for number in 1..DATABASES {
            if alike(&shown, &answer(number)?, self.question.ordered) {
                return Err("one answer fits several databases".to_owned());
            }
        }
        Ok(())
    }
}
