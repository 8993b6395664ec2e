//! The reference page of the run file, written from its schema.

mod sections;
mod table;
pub(crate) mod words;

use gymkhana_algorithm::Preset;

use crate::schema::strict_schema;
use sections::{SECTIONS, SectionBody};
use table::Tables;

/// Text before the first section.
const INTRODUCTION: &str = "\
# Run file

Every key of a run file. [Write a run file](../how-to/write-a-run-file.md) explains the sections with examples.
[`run-file.schema.json`](run-file.schema.json) lists the same keys as a JSON Schema, for editors.

A run has at least one `[[stages]]` section; all other keys have defaults. An unknown key is an error that names the
nearest known key.
`--set SECTION.KEY=VALUE` overrides one value; a stage or an environment of several is addressed by its name or its index
from 0, as in `--set stages.rl.steps=20`. The run's folder contains the resolved file, `run.toml`.

Types: *integer*, *number* (an integer is also accepted), *boolean*, *text*, *list* and *table* are those of TOML. A
default of \"unset\" means that the key has no value unless the file gives one.
";

/// The reference page of the run file in Markdown: a table of key, type, default, range and meaning per section.
#[must_use]
pub fn run_file_page() -> String {
    let schema = strict_schema();
    let tables = Tables::new(&schema);
    let mut page = INTRODUCTION.to_owned();
    for section in SECTIONS {
        let mut blocks = vec![format!("{} {}", "#".repeat(section.level), section.heading)];
        match section.body {
            SectionBody::Root => blocks.push(tables.keys(&schema, section)),
            SectionBody::Types(names) => {
                for name in names {
                    blocks.extend([tables.description(name), tables.of(name, section)]);
                }
            }
            SectionBody::Presets => blocks.push(presets()),
            SectionBody::Text => {}
        }
        blocks.push(section.note.to_owned());
        for block in blocks.iter().filter(|block| !block.is_empty()) {
            page.push('\n');
            page.push_str(block.trim_end());
            page.push('\n');
        }
    }
    page
}

/// Names of all presets.
fn presets() -> String {
    let names: Vec<String> = Preset::names().map(|name| format!("`{name}`")).collect();
    format!("{}.", names.join(", "))
}
