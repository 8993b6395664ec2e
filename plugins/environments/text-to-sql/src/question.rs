//! Question with the query that answers it. Both are generated together, so that they have the same meaning: each
//! template states the wanted columns, the treatment of duplicates and the order, if any.

mod plain;
mod together;
mod within;

use gymkhana_sdk::Rng;

use crate::schema::{Deeds, Schema, Things};

/// SQL features that a question requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Conditions, an order, a limit.
    Filter,
    /// Aggregates of one row.
    Aggregate,
    /// Joins of two or three tables.
    Join,
    /// Groups and conditions on them.
    GroupHaving,
    /// Subqueries and set differences.
    Nested,
    /// Window functions: ranks, running sums, neighbouring rows.
    Window,
}

impl Kind {
    /// All kinds with their option values, the easiest first.
    pub const ALL: [(&'static str, Self); 6] = [
        ("filter", Self::Filter),
        ("aggregate", Self::Aggregate),
        ("join", Self::Join),
        ("group-having", Self::GroupHaving),
        ("nested", Self::Nested),
        ("window", Self::Window),
    ];

    /// Option value.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// Question with its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Required SQL features.
    pub kind: Kind,
    /// Text for the agent.
    pub text: String,
    /// Query that answers the question.
    pub sql: String,
    /// Whether the question requires an order.
    pub ordered: bool,
}

/// Values for the gaps of a template.
struct Parts<'a> {
    /// Randomly chosen one of the two entity tables.
    p: &'a Things,
    /// Other entity table.
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

/// Words of a column: its name without underscores.
fn words(column: &str) -> String {
    column.replace('_', " ")
}

/// Word with its indefinite article.
fn a(word: &str) -> String {
    let article = if word.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {word}")
}

/// Number in the middle half of a range, so that rows exist on both sides.
fn middle(rng: &mut Rng, low: i64, high: i64) -> i64 {
    let quarter = (high - low) / 4;
    rng.between(low + quarter, high - quarter)
}

impl Parts<'_> {
    /// Value of the entity's integer column.
    fn number(&self, rng: &mut Rng) -> i64 {
        middle(rng, self.p.entity.number.1, self.p.entity.number.2)
    }

    /// Value of the entity's categorical column.
    fn category(&self, rng: &mut Rng) -> &'static str {
        rng.pick::<&str>(self.p.entity.category.1)
    }

    /// Value of the event's integer column.
    fn count(&self, rng: &mut Rng) -> i64 {
        middle(rng, self.d.of.count.1, self.d.of.count.2)
    }

    /// Two values of the event's categorical column.
    fn states(&self, rng: &mut Rng) -> [&'static str; 2] {
        let mut states = self.d.of.category.1.to_vec();
        rng.shuffle(&mut states);
        [states[0], states[1]]
    }

    /// `FROM` clause that joins the events `d` with the entities `p`.
    fn joined(&self) -> String {
        let Self { p, d, .. } = self;
        format!("FROM {} AS d JOIN {} AS p ON p.{} = d.{}", d.table, p.table, p.id, p.key)
    }

    /// `joined`, with the other entities as `q`.
    fn all_joined(&self) -> String {
        let q = self.q;
        format!("{} JOIN {} AS q ON q.{} = d.{}", self.joined(), q.table, q.id, q.key)
    }
}
