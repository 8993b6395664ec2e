//! A question in words with the query that answers it. Words and query are made together, so that they mean the same:
//! each form says which columns are wanted, what happens to equal rows, and in which order, if in one.

mod plain;
mod together;
mod within;

use gymkhana_sdk::Rng;

use crate::schema::{Deeds, Schema, Things};

/// What a question needs of SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Conditions, an order, a limit.
    Filter,
    /// One row of sums.
    Aggregate,
    /// Two or three tables.
    Join,
    /// Groups, and conditions on them.
    GroupHaving,
    /// Queries within queries, and differences of results.
    Nested,
    /// Ranks, running sums, neighbours.
    Window,
}

impl Kind {
    /// All kinds with the names that the option has for them, the easiest first.
    pub const ALL: [(&'static str, Self); 6] = [
        ("filter", Self::Filter),
        ("aggregate", Self::Aggregate),
        ("join", Self::Join),
        ("group-having", Self::GroupHaving),
        ("nested", Self::Nested),
        ("window", Self::Window),
    ];

    /// The option's name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What it needs.
    pub kind: Kind,
    /// What the agent reads.
    pub text: String,
    /// A query that answers it.
    pub sql: String,
    /// Whether the question asks for an order.
    pub ordered: bool,
}

/// What a form is filled with.
struct Parts<'a> {
    /// One of the two tables of named things, drawn.
    p: &'a Things,
    /// The other one.
    q: &'a Things,
    d: &'a Deeds,
}

/// Text, query, and whether the order counts.
type Form = (String, String, bool);

impl Question {
    /// Draws a question of this kind about a schema.
    pub fn draw(rng: &mut Rng, schema: &Schema, kind: Kind) -> Self {
        let (p, q) = if rng.below(2) == 0 { (&schema.who, &schema.what) } else { (&schema.what, &schema.who) };
        let parts = Parts { p, q, d: &schema.deed };
        let (text, sql, ordered) = match kind {
            Kind::Filter => plain::filter(&parts, rng),
            Kind::Aggregate => plain::aggregate(&parts, rng),
            Kind::Join => together::join(&parts, rng),
            Kind::GroupHaving => together::group(&parts, rng),
            Kind::Nested => within::nested(&parts, rng),
            Kind::Window => within::window(&parts, rng),
        };
        Self { kind, text, sql, ordered }
    }
}

/// The words of a column: its name without the underscores.
fn words(column: &str) -> String {
    column.replace('_', " ")
}

/// A word with its article.
fn a(word: &str) -> String {
    let article = if word.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {word}")
}

/// A number in the middle half of a range, so that some rows are on either side of it.
fn middle(rng: &mut Rng, low: i64, high: i64) -> i64 {
    let quarter = (high - low) / 4;
    rng.between(low + quarter, high - quarter)
}

impl Parts<'_> {
    /// A value of the named things' number.
    fn number(&self, rng: &mut Rng) -> i64 {
        middle(rng, self.p.entity.number.1, self.p.entity.number.2)
    }

    /// A value of their category.
    fn category(&self, rng: &mut Rng) -> &'static str {
        rng.pick::<&str>(self.p.entity.category.1)
    }

    /// A value of the deeds' number.
    fn count(&self, rng: &mut Rng) -> i64 {
        middle(rng, self.d.of.count.1, self.d.of.count.2)
    }

    /// Two values of the deeds' category.
    fn states(&self, rng: &mut Rng) -> [&'static str; 2] {
        let mut states = self.d.of.category.1.to_vec();
        rng.shuffle(&mut states);
        [states[0], states[1]]
    }

    /// `FROM` the deeds joined with the named things, as `d` and `p`.
    fn joined(&self) -> String {
        let Self { p, d, .. } = self;
        format!("FROM {} AS d JOIN {} AS p ON p.{} = d.{}", d.table, p.table, p.id, p.key)
    }

    /// As `joined`, with the other named things as `q`.
    fn all_joined(&self) -> String {
        let q = self.q;
        format!("{} JOIN {} AS q ON q.{} = d.{}", self.joined(), q.table, q.id, q.key)
    }
}
