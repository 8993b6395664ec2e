//! A task: a schema, a question, and databases of that schema with other rows.

use gymkhana_sdk::{Rng, hash};
use gymkhana_sqlite::Value;

use crate::judge::{alike, ask, database};
use crate::question::{Kind, Question};
use crate::rows;
use crate::schema::Schema;

/// One of this many tasks is held out.
const HELD_OUT: u64 = 8;
/// Databases of a task: the one that is shown, and further ones that only the judge sees.
const DATABASES: u64 = 4;
/// A question whose answer has more rows is no question for a person.
const MOST_ROWS: u64 = 60;
/// How many tasks are drawn before it is said that none is sound.
const TRIES: u32 = 2_000;

/// A task.
pub struct Task {
    /// The question.
    pub question: Question,
    /// The statements that make the tables.
    pub create: String,
    schema: Schema,
    seed: u64,
    rows: u64,
}

impl Task {
    /// The task at a place of a split; the same place always holds the same one.
    ///
    /// # Errors
    ///
    /// If none is sound, which would be this plugin's mistake: in words.
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
        Err(format!("no sound task was found in {TRIES} tries: {last}"))
    }

    /// The words decide where a task belongs, so that none is in both splits.
    pub fn is_held_out(&self) -> bool {
        hash(format!("{}{}", self.create, self.question.text).as_bytes()).is_multiple_of(HELD_OUT)
    }

    /// The script of one of the databases; number 0 is the one that is shown.
    pub fn script(&self, number: u64) -> String {
        let mut rng = Rng::new(hash(format!("{}/{number}", self.seed).as_bytes()));
        format!("{}{}", self.create, rows::insert(&self.schema, &mut rng, self.rows))
    }

    /// Whether a query gives what the question asks for, in every database.
    ///
    /// # Errors
    ///
    /// If it does not run: in words for its author.
    pub fn judge(&self, query: &str) -> Result<bool, String> {
        let mut right = true;
        for number in 0..DATABASES {
            let mut database = database(&self.script(number))?;
            // A query that the shown database answers may fail in another one: then it is wrong there.
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

    /// Whether the question has an answer, not too long a one, and one that the rows decide: the same answer in two
    /// databases could be given without a look at any.
    fn check(&self) -> Result<(), String> {
        let answer = |number| ask(&mut database(&self.script(number))?, &self.question.sql);
        let shown = answer(0)?;
        if shown.total > MOST_ROWS {
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
