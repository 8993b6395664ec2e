//! Spans of a run or a server: `--trace FILE` writes them to a file, and the feature `otel` exports them to a collector.
//!
//! Without a receiver there is no subscriber and a span costs one comparison. Without the feature `trace` there is no
//! receiver.

#[cfg(feature = "trace")]
mod file;
#[cfg(not(feature = "trace"))]
mod left_out;
#[cfg(feature = "otel")]
mod otel;
#[cfg(feature = "trace")]
mod receivers;

#[cfg(not(feature = "trace"))]
pub use left_out::Trace;
#[cfg(feature = "trace")]
pub use receivers::Trace;

/// A receiver of spans.
#[cfg(feature = "trace")]
type SpanLayer = Box<dyn tracing_subscriber::layer::Layer<tracing_subscriber::Registry> + Send + Sync>;
