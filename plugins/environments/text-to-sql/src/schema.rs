//! Schema drawn from a domain: names of its tables and columns, and its optional columns.

use gymkhana_sdk::Rng;

use crate::domain::{DOMAINS, Deed, Domain, Entity};

/// Three tables with their names. Questions use the words of the columns.
#[derive(Clone)]
pub struct Schema {
    /// Actors.
    pub who: Things,
    /// Objects.
    pub what: Things,
    /// Events between the two.
    pub deed: Deeds,
}

/// Table of named entities.
#[derive(Clone)]
pub struct Things {
    /// Source of the names.
    pub entity: &'static Entity,
    /// Name of the table.
    pub table: String,
    /// Singular, in words.
    pub one: &'static str,
    /// Plural, in words.
    pub many: &'static str,
    /// Primary key.
    pub id: String,
    /// Name of the foreign key in other tables.
    pub key: String,
    /// Column with the unique name.
    pub label: &'static str,
    /// Categorical column.
    pub category: &'static str,
    /// Integer column.
    pub number: &'static str,
    /// Column with NULLs, if present.
    pub extra: Option<&'static str>,
}

/// Table of events.
#[derive(Clone)]
pub struct Deeds {
    /// Source of the names.
    pub of: &'static Deed,
    /// Name of the table.
    pub table: String,
    /// Singular, in words.
    pub one: &'static str,
    /// Plural, in words.
    pub many: &'static str,
    /// Primary key.
    pub id: String,
    /// Column with the date.
    pub day: &'static str,
    /// Categorical column.
    pub category: &'static str,
    /// Integer column.
    pub count: &'static str,
    /// Column with the amount, if present.
    pub amount: Option<&'static str>,
}

/// Naming style of tables and keys.
#[derive(Clone, Copy)]
struct Style {
    plural: bool,
    named_keys: bool,
}

impl Style {
    fn table(self, names: (&str, &str)) -> String {
        if self.plural { names.1 } else { names.0 }.to_owned()
    }

    fn id(self, one: &str) -> String {
        if self.named_keys { format!("{one}_id") } else { "id".to_owned() }
    }
}

impl Schema {
    /// Draws a schema.
    pub fn draw(rng: &mut Rng) -> Self {
        let Domain { who, what, deed } = rng.pick(&DOMAINS);
        let style = Style { plural: rng.below(2) == 0, named_keys: rng.below(2) == 0 };
        Self { who: things(rng, who, style), what: things(rng, what, style), deed: deeds(rng, deed, style) }
    }

    /// Statements that create the tables.
    pub fn create(&self) -> String {
        let keys = [&self.who, &self.what];
        let mut columns = vec![format!("{} INTEGER PRIMARY KEY", self.deed.id)];
        columns.extend(keys.map(|of| format!("{} INTEGER NOT NULL REFERENCES {} ({})", of.key, of.table, of.id)));
        columns.extend([self.deed.day, self.deed.category].map(|name| format!("{name} TEXT NOT NULL")));
        columns.push(format!("{} INTEGER NOT NULL", self.deed.count));
        columns.extend(self.deed.amount.map(|name| format!("{name} REAL NOT NULL")));
        let deeds = format!("CREATE TABLE {} ({});", self.deed.table, columns.join(", "));
        format!("{}\n{}\n{deeds}\n", self.who.create(), self.what.create())
    }
}

impl Things {
    fn create(&self) -> String {
        let mut columns = vec![format!("{} INTEGER PRIMARY KEY", self.id)];
        columns.push(format!("{} TEXT NOT NULL UNIQUE", self.label));
        columns.push(format!("{} TEXT NOT NULL", self.category));
        columns.push(format!("{} INTEGER NOT NULL", self.number));
        columns.extend(self.extra.map(|name| format!("{name} INTEGER")));
        format!("CREATE TABLE {} ({});", self.table, columns.join(", "))
    }
}

fn things(rng: &mut Rng, entity: &'static Entity, style: Style) -> Things {
    let (one, many) = *rng.pick(entity.names);
    Things {
        entity,
        table: style.table((one, many)),
        one,
        many,
        id: style.id(one),
        key: format!("{one}_id"),
        label: rng.pick::<&str>(entity.label),
        category: rng.pick::<&str>(entity.category.0),
        number: rng.pick::<&str>(entity.number.0),
        extra: (rng.below(3) > 0).then_some(entity.extra.0),
    }
}

fn deeds(rng: &mut Rng, of: &'static Deed, style: Style) -> Deeds {
    let (one, many) = *rng.pick(of.names);
    Deeds {
        of,
        table: style.table((one, many)),
        one,
        many,
        id: style.id(one),
        day: rng.pick::<&str>(of.day),
        category: rng.pick::<&str>(of.category.0),
        count: rng.pick::<&str>(of.count.0),
        amount: (rng.below(3) > 0).then_some(of.amount.0),
    }
}
