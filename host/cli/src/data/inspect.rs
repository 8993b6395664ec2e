//! `host data inspect`: describes a data file.

use std::path::Path;

use gymkhana_chat::ChatFormat;
use gymkhana_data::{Lengths, SourceInspection};
use gymkhana_orchestration::chat::model_chat_files;
use serde_json::json;

use super::{options, told};
use crate::args::data::InspectDataArgs;
use crate::error::{Classify, CliResult};
use crate::escape::escape_line;
use crate::printer::Printer;
use crate::units::counted;

/// Runs the command.
pub fn inspect(args: &InspectDataArgs, printer: &Printer) -> CliResult<()> {
    let options = options(&args.source, 0)?;
    let format = args.model.as_deref().map(chat_format).transpose()?;
    let length = |text: &str| match &format {
        Some(format) => match format.encode_plain(text) {
            Ok(tokens) => Ok(tokens.len() as u64),
            Err(error) => Err(error.to_string()),
        },
        None => Ok(text.chars().count() as u64),
    };
    let found = gymkhana_data::inspect(&args.source.source, &options, length, told(printer)).user_error()?;
    let unit = if format.is_some() { "tokens" } else { "characters" };
    found.remarks.warnings().iter().for_each(|warning| printer.warn(warning));
    if args.json {
        printer.json(json(&found, unit));
    } else {
        print(&found, unit, printer);
    }
    Ok(())
}

fn chat_format(model: &Path) -> CliResult<ChatFormat> {
    ChatFormat::new(&model_chat_files(model)?).user_error()
}

fn print(found: &SourceInspection, unit: &str, printer: &Printer) {
    let row = |name: &str, text: &str| printer.result(format!("{name:>10}  {}", escape_line(text)));
    row("rows", &found.rows.to_string());
    row("shape", found.shape.map_or("unknown: name a column with --column prompt=NAME", |shape| shape.name()));
    for column in &found.columns {
        row(
            "column",
            &format!(
                "{}: {}, in {}",
                as_argument(&column.name),
                column.kinds.join(" or "),
                counted(column.filled, "row")
            ),
        );
    }
    for (name, tasks) in &found.splits {
        row("split", &format!("{name}: {}", counted(*tasks, "task")));
    }
    if let Some(Lengths { least, median, percentile_99, most }) = found.lengths {
        let lengths =
            format!("{least} to {most} {unit} in the messages; median {median}, 99th percentile {percentile_99}");
        row("length", &lengths);
    }
    row("repeated", &format!("{} within a split, {} across splits", found.repeated, found.overlapping));
    row("bad", &format!("{} would be refused", counted(found.bad, "row")));
    for (place, why) in &found.examples {
        row("", &format!("{place}: {why}"));
    }
}

/// A column's name as an argument of `--column` takes it: quoted if it has more than letters, digits, `_`, `-` and `.`.
fn as_argument(name: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { format!("{name:?}") }
}

fn json(found: &SourceInspection, unit: &str) -> serde_json::Value {
    let column = |column: &gymkhana_data::SourceColumn| json!({ "name": column.name, "kinds": column.kinds, "rows": column.filled });
    let lengths = found.lengths.map(|lengths| {
        json!({
            "unit": unit, "least": lengths.least, "median": lengths.median, "percentile_99": lengths.percentile_99,
            "most": lengths.most,
        })
    });
    let bad =
        |(place, why): &(gymkhana_data::SourceLocation, String)| json!({ "place": place.to_string(), "why": why });
    json!({
        "rows": found.rows,
        "shape": found.shape.map(gymkhana_data::RecordShape::name),
        "columns": found.columns.iter().map(column).collect::<Vec<_>>(),
        "splits": found.splits,
        "lengths": lengths,
        "repeated": found.repeated,
        "overlapping": found.overlapping,
        "bad": found.bad,
        "examples": found.examples.iter().map(bad).collect::<Vec<_>>(),
    })
}
