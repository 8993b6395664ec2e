//! The file and the collector that receive spans.

use std::path::Path;

use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

use super::SpanLayer;
use super::file::TraceFile;
#[cfg(feature = "otel")]
use super::otel;
use crate::error::{Classify, RunResult};
use crate::report::Reporter;

/// Receivers of this process's spans.
pub struct Trace {
    file: Option<TraceFile>,
    #[cfg(feature = "otel")]
    export: Option<otel::SpanExport>,
}

impl Trace {
    /// Opens the file to append to it. With the feature `otel`, also sets up the export if the environment names a
    /// collector.
    ///
    /// # Errors
    /// If the file cannot be written or the export cannot be set up.
    pub fn open(file: Option<&Path>) -> RunResult<Self> {
        Ok(Self {
            file: file.map(TraceFile::open).transpose()?,
            #[cfg(feature = "otel")]
            export: otel::SpanExport::from_environment()?,
        })
    }

    /// Hands the spans of this process to the receivers from now on.
    ///
    /// # Errors
    /// If the process has another subscriber.
    pub fn start(&self) -> RunResult<()> {
        let layers = self.layers();
        if layers.is_empty() {
            return Ok(());
        }
        let subscriber = Registry::default().with(layers).with(LevelFilter::INFO);
        tracing::subscriber::set_global_default(subscriber).internal()
    }

    fn layers(&self) -> Vec<SpanLayer> {
        let layers = self.file.iter().map(TraceFile::layer);
        #[cfg(feature = "otel")]
        let layers = layers.chain(self.export.iter().map(otel::SpanExport::layer));
        layers.collect()
    }

    /// Exports the remaining spans. Returns the first write error of the file, if any; a failed export is a status line.
    #[cfg_attr(not(feature = "otel"), allow(clippy::unused_async, unused_variables))]
    pub async fn finish(self, reporter: &dyn Reporter) -> RunResult<()> {
        #[cfg(feature = "otel")]
        if let Some(export) = self.export
            && let Some(failure) = export.finish().await
        {
            reporter.warn(&failure);
        }
        self.file.map_or(Ok(()), |file| file.all_written())
    }
}
