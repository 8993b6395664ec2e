//! The resolved run files side by side, with the keys in which they differ.

use std::collections::BTreeMap;

use maud::{Markup, html};
use toml::Value;

use super::selected;
use crate::error::PageProblem;
use crate::layout::{self, PageFrame, choices, scrolling, select};
use crate::query::Query;
use crate::state::App;
use crate::words::visible;

/// The page.
pub(crate) fn page(app: &App, query: &Query) -> Result<Markup, PageProblem> {
    let runs = selected(app, query)?;
    let only_differences = query.choice("show", &[("differences", true)], "differences")?.unwrap_or(false);
    let mut files = Vec::new();
    for run in &runs {
        files.push(flattened(&Value::Table(run.file()?)));
    }
    let mut rows = compared(&files);
    if only_differences {
        rows.retain(|row| row.differs);
    }
    let table = html! {
        table.settings {
            thead { tr { th scope="col" { "Key" } @for run in &runs { th scope="col" { (visible(&run.name)) } } } }
            tbody {
                @for row in &rows {
                    tr.differs[row.differs] {
                        th scope="row" { code { (visible(row.key)) } @if row.differs { " " span title="differs" { "≠" } } }
                        @for value in &row.values {
                            td { @match value { Some(value) => code { (visible(value)) }, None => span.absent { "absent" } } }
                        }
                    }
                }
            }
        }
    };
    let body = html! {
        h1 { "Settings" }
        p { "The resolved run file of each run, with every default." }
        @if runs.len() > 1 {
            form.options method="get" action="/settings" aria-label="Settings" data-auto {
                (select(query, "show", "Keys", &choices(&[("", "all"), ("differences", "differences")])))
                button { "Show" }
            }
            @if rows.is_empty() { p { "The run files are equal." } }
        }
        @if !rows.is_empty() { (scrolling("Settings", &table)) }
    };
    Ok(layout::page(app, &PageFrame { title: "Settings", run: None, live: vec![] }, &body))
}

/// A key and its value in each run.
#[derive(Debug, PartialEq)]
struct SettingRow<'a> {
    key: &'a str,
    values: Vec<Option<&'a str>>,
    differs: bool,
}

fn compared(files: &[BTreeMap<String, String>]) -> Vec<SettingRow<'_>> {
    let mut keys: Vec<&str> = files.iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    let row = |key| {
        let values: Vec<Option<&str>> = files.iter().map(|file| file.get(key).map(String::as_str)).collect();
        let differs = values.windows(2).any(|pair| pair[0] != pair[1]);
        SettingRow { key, values, differs }
    };
    keys.into_iter().map(row).collect()
}

/// Values by their whole keys, such as `stages[1].steps`.
fn flattened(value: &Value) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    flatten(String::new(), value, &mut flat);
    flat
}

fn flatten(key: String, value: &Value, flat: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) if !table.is_empty() => {
            for (name, value) in table {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(key, value, flat);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_table) => {
            for (place, value) in list.iter().enumerate() {
                flatten(format!("{key}[{place}]"), value, flat);
            }
        }
        other => {
            flat.insert(key, other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_or_are_absent_are_marked() {
        let file = |text: &str| flattened(&Value::Table(toml::from_str(text).unwrap()));
        let files = [
            file("seed = 1\n[policy]\nlora = 8\n[[stages]]\nkind = \"rl\"\nsteps = 3"),
            file("seed = 1\n[[stages]]\nkind = \"rl\"\nsteps = 4"),
        ];
        let rows = compared(&files);
        let found: Vec<(&str, bool)> = rows.iter().map(|row| (row.key, row.differs)).collect();
        let expected = [("policy.lora", true), ("seed", false), ("stages[0].kind", false), ("stages[0].steps", true)];
        assert_eq!(found, expected);
        assert_eq!(rows[0].values, [Some("8"), None]);
    }
}
