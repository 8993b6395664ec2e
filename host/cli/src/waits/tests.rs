//! The table against the sources: constants, keys, options and tests are those that it names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_waits::Counterpart;

use super::table::{BoundOfWait, TABLE};
use super::waits_page;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Part of a page below a heading, until the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(heading).unwrap_or_else(|| panic!("no heading {heading}"));
    let rest = &page[start + heading.len()..];
    &rest[..rest.find("\n#").unwrap_or(rest.len())]
}

#[test]
fn every_counterpart_has_a_row() {
    let named: BTreeSet<Counterpart> = TABLE.iter().map(|row| row.counterpart).collect();
    assert_eq!(named, BTreeSet::from(Counterpart::ALL));
    let page = waits_page();
    assert_eq!(page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| waits")).count(), {
        TABLE.len() + Counterpart::ALL.len()
    });
}

#[test]
fn bounds_are_those_of_the_sources() {
    let (run_file, commands) = (read("docs/reference/run-file.md"), read("docs/reference/cli.md"));
    for row in TABLE {
        match row.bound {
            BoundOfWait::Constant(file, name, value) | BoundOfWait::Reported(file, name, value) => {
                let text = read(file);
                let number = value.as_secs();
                let forms = [
                    format!("const {name}: Duration = Duration::from_secs({number});"),
                    format!("{name}: Duration::from_secs({number}),"),
                    format!("{name}: StallBudget::new(Duration::from_secs({number}),"),
                ];
                assert!(forms.iter().any(|form| text.contains(form)), "{file} has no `{name}` of {number} s");
            }
            BoundOfWait::Key(table, key, default) => {
                let (long, short) = (format!("\n### {table}\n"), format!("\n## {table}\n"));
                let heading = if run_file.contains(&long) { long } else { short };
                let line = section(&run_file, &heading).lines().find(|line| line.starts_with(&format!("| `{key}` ")));
                let line = line.unwrap_or_else(|| panic!("{table} has no key `{key}`"));
                assert!(line.contains(&format!("| `{default}` |")), "{line}");
            }
            BoundOfWait::Argument(command, name, default) => {
                let part = section(&commands, &format!("\n## `{command}`\n"));
                let line = part.lines().find(|line| line.starts_with(&format!("| `{name} ")));
                let line = line.unwrap_or_else(|| panic!("`{command}` has no option `{name}`"));
                assert!(line.ends_with(&format!("| `{default}` |")), "{line}");
            }
            BoundOfWait::None => {}
        }
    }
}

#[test]
fn tests_are_there() {
    TABLE.iter().for_each(|row| row.evidence.assert_there());
}
