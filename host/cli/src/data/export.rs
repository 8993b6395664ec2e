//! `host data export`: recorded episodes in the formats of other programs, one line of JSON or one row each.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;

use gymkhana_data::{ConversationTable, ConversationWriter};
use gymkhana_orchestration::recorded_runs::{RecordedRun, count_matches};
use gymkhana_record::EpisodeRecord;
use gymkhana_traces::{About, TraceFormat, WANDB_COLUMNS, traces};

use crate::args::data::{DataExportArgs, DataFormat};
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::units::counted;

impl From<DataFormat> for TraceFormat {
    fn from(format: DataFormat) -> Self {
        match format {
            DataFormat::Atif => Self::Atif,
            DataFormat::OpenenvTrace => Self::OpenEnv,
            DataFormat::Verifiers => Self::Verifiers,
            DataFormat::Openai | DataFormat::Verl | DataFormat::Parquet => Self::OpenAi,
            DataFormat::Sharegpt => Self::ShareGpt,
            DataFormat::Otel => Self::GenAi,
            DataFormat::Openinference => Self::OpenInference,
            DataFormat::WandbTable => Self::Wandb,
        }
    }
}

impl DataExportArgs {
    /// Whether the options select an episode.
    fn includes(&self, record: &EpisodeRecord, run: &RecordedRun) -> bool {
        let purpose = self.only.is_none_or(|only| only.includes(record.id.phase));
        let solved = !self.solved || record.success;
        purpose && solved && run.meets(record, self.filter.as_ref())
    }
}

/// Runs the command.
pub fn export(args: &DataExportArgs, printer: &Printer) -> CliResult<()> {
    let run = RecordedRun::open(&args.dir)?;
    if let Some(filter) = &args.filter
        && count_matches(std::slice::from_ref(&run), filter)? == 0
    {
        return Err(nothing(0));
    }
    let about = about(&run)?;
    let mut out = TraceOutput::open(args)?;
    let (mut episodes, mut lines, mut empty) = (0, 0, 0);
    let mut write = |record: &EpisodeRecord| -> CliResult<()> {
        let traces = traces(record, &about, args.format.into()).internal()?;
        episodes += 1;
        lines += traces.len();
        empty += usize::from(traces.is_empty());
        traces.into_iter().try_for_each(|trace| out.write(trace, printer))
    };
    match args.episode {
        Some(id) => write(&run.episodes.read(id)?)?,
        None => {
            for record in run.records() {
                let record = record?;
                if args.includes(&record, &run) {
                    write(&record)?;
                }
            }
        }
    }
    if lines == 0 {
        return Err(nothing(episodes));
    }
    out.finish()?;
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
        .with_hint("use --format atif or openai for episodes of `host serve`")
}

/// Facts of the run that its records do not hold.
fn about(run: &RecordedRun) -> CliResult<About> {
    let agent = run.file.agent.as_ref().map(|agent| agent.command.join(" "));
    let model = run.file.agent.as_ref().and_then(|agent| agent.models.first().cloned());
    // The run file is written at the start, and again when a resumed run has more steps.
    let file = run.path().join("run.toml");
    let unknown = format!("the beginning of the run in `{}` cannot be read", run.path().display());
    let begun = file.metadata().and_then(|facts| facts.modified()).user_context(unknown)?;
    let begun_ns = begun.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    Ok(About {
        agent: agent.unwrap_or_else(|| "gymkhana".to_owned()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: model.unwrap_or_else(|| "policy".to_owned()),
        system: run.file.policy.system.clone(),
        begun_ns,
    })
}

/// Where the traces go.
enum TraceOutput<'a> {
    /// Standard output.
    Lines,
    /// A file of lines.
    File(&'a Path, BufWriter<File>),
    /// A Parquet file.
    Table(Box<ConversationWriter>),
    /// A file with one document of JSON, whose rows these are.
    Rows { path: &'a Path, file: BufWriter<File>, rows: usize },
}

impl<'a> TraceOutput<'a> {
    fn open(args: &'a DataExportArgs) -> CliResult<Self> {
        let create = |path: &Path| File::create(path).map(BufWriter::new).user_context(cannot_write(path));
        let named = |what: &str| {
            let unnamed =
                || CliError::user(format!("this format is {what}")).with_hint("name the file with --out FILE");
            args.out.as_deref().ok_or_else(unnamed)
        };
        let parquet = |table| {
            let writer = ConversationWriter::create(named("a Parquet file")?, table).user_error()?;
            Ok(Self::Table(Box::new(writer)))
        };
        match args.format {
            DataFormat::Verl => parquet(ConversationTable::Verl),
            DataFormat::Parquet => parquet(ConversationTable::Plain),
            DataFormat::WandbTable => {
                let path = named("one document of JSON")?;
                let mut file = create(path)?;
                let columns = serde_json::to_string(&WANDB_COLUMNS).internal()?;
                write!(file, "{{\"_type\":\"table\",\"log_mode\":\"IMMUTABLE\",\"columns\":{columns},\"data\":[")
                    .user_context(cannot_write(path))?;
                Ok(Self::Rows { path, file, rows: 0 })
            }
            _ => match args.out.as_deref() {
                None => Ok(Self::Lines),
                Some(path) => Ok(Self::File(path, create(path)?)),
            },
        }
    }

    fn write(&mut self, trace: String, printer: &Printer) -> CliResult<()> {
        match self {
            Self::Lines => printer.json(trace),
            Self::File(path, file) => writeln!(file, "{trace}").user_context(cannot_write(path))?,
            Self::Table(writer) => writer.add(serde_json::from_str(&trace).internal()?).user_error()?,
            Self::Rows { path, file, rows } => {
                let comma = if *rows > 0 { "," } else { "" };
                write!(file, "{comma}\n{trace}").user_context(cannot_write(path))?;
                *rows += 1;
            }
        }
        Ok(())
    }

    fn finish(self) -> CliResult<()> {
        match self {
            Self::Lines => Ok(()),
            Self::File(path, mut file) => file.flush().user_context(cannot_write(path)),
            Self::Table(writer) => writer.finish().user_error(),
            Self::Rows { path, mut file, rows } => {
                let columns = WANDB_COLUMNS.len();
                writeln!(file, "\n],\"ncols\":{columns},\"nrows\":{rows}}}").user_context(cannot_write(path))?;
                file.flush().user_context(cannot_write(path))
            }
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("--out `{}` cannot be written\nhint: name a file in a writable folder with space", path.display())
}
