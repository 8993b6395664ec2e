//! The routes of all endpoints over two first-party plugins, without a socket.

use std::sync::{Arc, LazyLock};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::{Extension, Router};
use gymkhana_http::Client;
use gymkhana_orchestration::plugins::{pin, read_file};
use gymkhana_orchestration::{Reporter, Silent};
use gymkhana_sandbox::GuestThreads;
use gymkhana_serve::catalog::Catalog;
use gymkhana_serve::config::ServeFile;
use gymkhana_serve::endpoints;
use gymkhana_serve::records::Records;
use gymkhana_serve::session::SessionTable;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// Plugins that `cargo xtask setup` builds; the targets run in the root of the repository.
const PLUGINS: [&str; 2] = ["target/plugins/frozen-lake.wasm", "target/plugins/calculator.wasm"];

/// Few sessions, so that inputs also reach the bounds.
const CONFIG: &str = "[sessions]\nmax = 32\nlive = 4\nwait_seconds = 0\nidle_seconds = 0.5\n[limits]\nturns = 8\n[sandbox]\ninstances = 24\n";

static SERVED: LazyLock<(Runtime, Router)> = LazyLock::new(|| {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let router = runtime.block_on(async {
        let config = ServeFile::parse(CONFIG, "serve.toml").expect("a configuration");
        let files = PLUGINS.map(|path| read_file(path.as_ref()).expect("a built plugin"));
        let (files, _) = pin(files.into()).expect("plugins");
        let reporter: Arc<dyn Reporter> = Arc::new(Silent);
        let catalog = Catalog::load(&config, ".".as_ref(), files, &reporter).await.expect("a catalog");
        // The threads run as long as the process.
        let guests = Box::leak(Box::new(GuestThreads::start_with(1).expect("threads")));
        let sessions = SessionTable::new(catalog, &config, Arc::new(Records::none()), guests.handle().clone());
        endpoints::router(&sessions, &config).expect("routes").layer(Extension(Client::anyone()))
    });
    (runtime, router)
});

/// Sends a request; returns the status and the body. A panic on any thread ends the process by libFuzzer's hook.
pub fn ask(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Vec<u8>) {
    let (runtime, router) = &*SERVED;
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_vec())).expect("a request");
    runtime.block_on(async {
        let response = router.clone().oneshot(request).await.expect("routes do not fail");
        let status = response.status().as_u16();
        (status, to_bytes(response.into_body(), usize::MAX).await.expect("a body").to_vec())
    })
}
