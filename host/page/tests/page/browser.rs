//! The page in Chromium, by Playwright. Not a part of the default tests: it needs Node.js, npm's packages and a browser.
//!
//! ```text
//! (cd host/page/tests/browser && npm ci --ignore-scripts)
//! cargo test --release --workspace --test page -- --ignored browser
//! ```
//!
//! `CHROMIUM` is the path of the browser, `/usr/bin/chromium` by default. With `SCREENSHOTS=FOLDER` pictures of all pages
//! are kept there.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use gymkhana_page::{PageAddress, Replayed, Replayer};

use crate::fixture::Runs;
use crate::hostile::hostile;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Node.js and Chromium"]
async fn browser() {
    let mut runs = Runs::one();
    let episodes = [hostile(), crate::fixture::episode(0, 0, 1)];
    runs.add("<b>run", &crate::fixture::run_file(2), &episodes);
    let address = "127.0.0.1:0".parse().expect("an address");
    let paths = [runs.path(0).to_owned(), runs.path(1).to_owned()];
    let place = PageAddress::bind(address, None).expect("a port");
    let url = format!("http://{}", place.address());
    let replayer: Replayer = Arc::new(|_| Ok(Replayed::Equal { forks: 1 }));
    let page = place.open(&paths, Some(replayer)).expect("a page");
    let serving = tokio::spawn(page.serve(std::future::pending()));
    let metrics = runs.path(0).join("metrics.jsonl");
    let checked = tokio::task::spawn_blocking(move || {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
        let mut command = Command::new("node");
        command.arg("check.mjs").arg(&url).arg(&metrics).current_dir(folder);
        if let Some(screenshots) = std::env::var_os("SCREENSHOTS") {
            command.arg(screenshots);
        }
        command.status().expect("node starts")
    });
    assert!(checked.await.expect("no panic").success(), "a check failed, see above");
    serving.abort();
}
