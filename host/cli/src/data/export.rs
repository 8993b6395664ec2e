//! `host data export`: recorded episodes in the formats of other programs, one line of JSON each.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use gymkhana_config::RunFile;
use gymkhana_record::{Ending, EpisodeRecord};
use gymkhana_store::RunReader;
use gymkhana_traces::{About, TraceFormat, traces};

use super::args::{DataExportArgs, DataFormat};
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::units::counted;

impl From<DataFormat> for TraceFormat {
    fn from(format: DataFormat) -> Self {
        match format {
            DataFormat::Atif => Self::Atif,
            DataFormat::OpenenvTrace => Self::OpenEnv,
            DataFormat::Verifiers => Self::Verifiers,
        }
    }
}

impl DataExportArgs {
    /// Whether the options select an episode. Dropped ones are left out.
    fn includes(&self, record: &EpisodeRecord) -> bool {
        let purpose = self.only.is_none_or(|only| only.includes(record.id.phase));
        let solved = !self.solved || record.success;
        record.ending != Ending::Dropped && purpose && solved
    }
}

/// Runs the command.
pub fn export(args: &DataExportArgs, printer: &Printer) -> CliResult<()> {
    let run = RunReader::open(&args.dir)?;
    let about = about(&run)?;
    let mut out = args.out.as_deref().map(writer).transpose()?;
    let (mut episodes, mut lines, mut empty) = (0, 0, 0);
    let mut write = |record: &EpisodeRecord| -> CliResult<()> {
        let traces = traces(record, &about, args.format.into()).internal()?;
        episodes += 1;
        lines += traces.len();
        empty += usize::from(traces.is_empty());
        for trace in traces {
            match &mut out {
                Some(out) => writeln!(out, "{trace}").user_context(cannot_write(args.out.as_deref()))?,
                None => printer.json(trace),
            }
        }
        Ok(())
    };
    match args.episode {
        Some(id) => write(&run.episodes()?.read(id)?)?,
        None => {
            for record in run.episodes()?.read_all() {
                let record = record?;
                if args.includes(&record) {
                    write(&record)?;
                }
            }
        }
    }
    if let Some(mut out) = out {
        out.flush().user_context(cannot_write(args.out.as_deref()))?;
    }
    if lines == 0 {
        return Err(nothing(episodes));
    }
    let empty =
        if empty > 0 { format!("; {} without tokens left out", counted(empty, "episode")) } else { String::new() };
    printer.status(format!("{} of {}{empty}", counted(lines, "trace"), counted(episodes, "episode")));
    Ok(())
}

/// The error of an export without a line.
fn nothing(episodes: usize) -> CliError {
    if episodes == 0 {
        return CliError::user("no episode was exported: the run has none that the options select")
            .with_hint("`host show DIR --episodes all` lists its episodes");
    }
    CliError::user("no episode was exported: their records hold no tokens, which this format needs")
        .with_hint("use --format atif for episodes of `host serve`")
}

/// What the records do not hold.
fn about(run: &RunReader) -> CliResult<About> {
    let file = RunFile::parse(&run.run_text()?, "run.toml", &[]).user_error()?;
    let agent = file.agent.as_ref().map(|agent| agent.command.join(" "));
    let model = file.agent.as_ref().and_then(|agent| agent.models.first().cloned());
    Ok(About {
        agent: agent.unwrap_or_else(|| "gymkhana".to_owned()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: model.unwrap_or_else(|| "policy".to_owned()),
        system: file.policy.system,
    })
}

fn writer(path: &Path) -> CliResult<BufWriter<File>> {
    Ok(BufWriter::new(File::create(path).user_context(cannot_write(Some(path)))?))
}

fn cannot_write(path: Option<&Path>) -> String {
    let path = path.unwrap_or(Path::new("")).display();
    format!("--out `{path}` cannot be written\nhint: name a file in a writable folder with space")
}
