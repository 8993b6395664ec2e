//! Rows for a schema. Different seeds give different rows, so that results reveal the meaning of a query.

use std::fmt::Write as _;

use gymkhana_sdk::Rng;

use crate::schema::{Schema, Things};

/// Statements that fill the tables; `rows` is the size of the largest table.
pub fn insert(schema: &Schema, rng: &mut Rng, rows: u64) -> String {
    let counts = [(rows / 3).max(4), (rows / 4).max(4)];
    let mut script = String::new();
    for (things, count) in [&schema.who, &schema.what].into_iter().zip(counts) {
        fill(&mut script, &things.table, &entities(things, rng, count));
    }
    let deeds = deeds(schema, rng, counts, rows);
    fill(&mut script, &schema.deed.table, &deeds);
    script
}

fn fill(script: &mut String, table: &str, rows: &[String]) {
    let _ = writeln!(script, "INSERT INTO {table} VALUES\n  {};", rows.join(",\n  "));
}

fn entities(things: &Things, rng: &mut Rng, count: u64) -> Vec<String> {
    let [before, behind] = things.entity.halves;
    let mut names: Vec<String> =
        before.iter().flat_map(|one| behind.iter().map(move |other| format!("{one} {other}"))).collect();
    rng.shuffle(&mut names);
    let (_, low, high) = things.entity.number;
    let (_, least, most) = things.entity.extra;
    let rows = (1..=count).zip(names).map(|(id, name)| {
        let category = rng.pick(things.entity.category.1);
        let mut row = format!("({id}, '{name}', '{category}', {}", rng.between(low, high));
        if things.extra.is_some() {
            let known = rng.below(6) > 0;
            let extra = rng.between(least, most);
            let _ = if known { write!(row, ", {extra}") } else { write!(row, ", NULL") };
        }
        row + ")"
    });
    rows.collect()
}

/// Three quarters of the actors have events, so some actors have none.
fn deeds(schema: &Schema, rng: &mut Rng, counts: [u64; 2], rows: u64) -> Vec<String> {
    let active = counts.map(|count| {
        let mut ids: Vec<u64> = (1..=count).collect();
        rng.shuffle(&mut ids);
        ids.truncate((count as usize * 3).div_ceil(4));
        ids
    });
    let deed = &schema.deed;
    let (_, low, high) = deed.of.count;
    let (_, least, most) = deed.of.amount;
    let rows = (1..=rows).map(|id| {
        let [who, what] = [rng.pick(&active[0]), rng.pick(&active[1])];
        let day = format!("{}-{:02}-{:02}", rng.between(2021, 2024), rng.between(1, 12), rng.between(1, 28));
        let category = rng.pick(deed.of.category.1);
        let mut row = format!("({id}, {who}, {what}, '{day}', '{category}', {}", rng.between(low, high));
        if deed.amount.is_some() {
            let hundredths = rng.between(least, most);
            let _ = write!(row, ", {}.{:02}", hundredths / 100, hundredths % 100);
        }
        row + ")"
    });
    rows.collect()
}
