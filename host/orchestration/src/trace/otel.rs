//! Export of spans to an OpenTelemetry collector: OTLP with protobuf over HTTP, from a thread of its own.
//!
//! OpenTelemetry's environment variables configure it. Spans are exported only if one of [`ENDPOINTS`] is set. A
//! collector that does not answer never delays the run: spans beyond the queue are discarded.

use std::env;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter as OtlpExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing_subscriber::layer::Layer;

use super::SpanLayer;
use crate::error::{Classify, RunResult};

/// Variables that name the collector, the more specific one first.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Variables that name the service.
const NAMES: [&str; 2] = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"];

/// Name of the service without a variable, and of the tracer.
const NAME: &str = "gymkhana";

/// Timeout of the last export.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// A running export.
pub struct SpanExport {
    provider: SdkTracerProvider,
    failure: FirstFailure,
}

/// First failure of an export, as text.
type FirstFailure = Arc<Mutex<Option<String>>>;

impl SpanExport {
    /// Starts the export to the collector that the environment names; `None` without one.
    pub fn from_environment() -> RunResult<Option<Self>> {
        if !is_any_set(ENDPOINTS) {
            return Ok(None);
        }
        // This fails if a provider is already installed, which suffices.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable =
            "spans cannot be exported\nhint: check OTEL_EXPORTER_OTLP_ENDPOINT, such as http://localhost:4318";
        let exporter = OtlpExporter::builder().with_http().build().user_context(unusable)?;
        let failure = FirstFailure::default();
        let exporter = CheckedExporter { exporter, failure: Arc::clone(&failure) };
        let resource = Resource::builder();
        let resource = if is_any_set(NAMES) { resource } else { resource.with_service_name(NAME) };
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        Ok(Some(Self { provider, failure }))
    }

    /// The layer that hands spans to the export.
    pub fn layer(&self) -> SpanLayer {
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer(NAME)).boxed()
    }

    /// Exports the remaining spans; returns the first failure of the whole export.
    pub async fn finish(self) -> Option<String> {
        let Self { provider, failure } = self;
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT)).await;
        let first = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let last = ended.map_or_else(|error| Some(error.to_string()), |ended| ended.err().map(|it| it.to_string()));
        first.or(last).map(|failure| format!("some spans were not exported: {failure}"))
    }
}

fn is_any_set(names: [&str; 2]) -> bool {
    names.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// An exporter that keeps its first failure, which the batch processor would discard.
#[derive(Debug)]
struct CheckedExporter {
    exporter: OtlpExporter,
    failure: FirstFailure,
}

impl SpanExporter for CheckedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        if let Err(error) = &exported {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| error.to_string());
        }
        exported
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use axum::Router;
    use axum::body::Bytes;
    use axum::http::HeaderMap;
    use axum::routing::post;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::unbounded_channel;
    use tracing::info_span;

    use crate::report::{Progress, Reporter, Silent, Work};
    use crate::trace::Trace;

    /// A reporter that treats a status line as a failure.
    struct Strict;

    impl Reporter for Strict {
        fn status(&self, text: &str) {
            panic!("status: {text}");
        }

        fn progress(&self, work: Work) -> Box<dyn Progress> {
            Silent.progress(work)
        }
    }

    /// Runs [`traced_process`] in a process of its own, since environment and subscriber belong to the process.
    async fn traced(endpoint: String) -> Output {
        let run = move || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "trace::otel::tests::traced_process", "--ignored", "--nocapture"]);
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_SERVICE_NAME", "a-service");
            command.env("NO_PROXY", "127.0.0.1").output().unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    #[tokio::test]
    #[ignore = "started by the other tests with an environment"]
    async fn traced_process() {
        let trace = Trace::open(None).unwrap();
        trace.start().unwrap();
        info_span!("episode", task = "train/7")
            .in_scope(|| info_span!("tool_call", tool = "calculator").in_scope(|| ()));
        trace.finish(&Strict).await.unwrap();
    }

    #[tokio::test]
    async fn spans_arrive_at_a_collector() {
        let (sender, mut requests) = unbounded_channel();
        let receive = async move |headers: HeaderMap, body: Bytes| sender.send((headers, body)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/v1/traces", post(receive));
        let collector = tokio::spawn(async move { axum::serve(listener, router).await });
        let output = traced(endpoint).await;
        assert!(output.status.success(), "{output:?}");
        collector.abort();
        let (headers, body) = requests.recv().await.expect("an export");
        assert_eq!(headers["content-type"], "application/x-protobuf");
        // Protobuf holds texts as they are.
        let text = String::from_utf8_lossy(&body);
        for expected in ["a-service", "episode", "train/7", "tool_call", "calculator"] {
            assert!(text.contains(expected), "no {expected} in {text}");
        }
    }

    #[tokio::test]
    async fn a_collector_that_does_not_answer_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let output = traced(format!("http://{address}")).await;
        assert!(!output.status.success());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("status: some spans were not exported: "), "{errors}");
    }
}
