//! The documentation site in Chromium, by Playwright, as the run page's browser test. Not a part of the default tests: it
//! needs Node.js, npm's packages, a browser, and the site that `cargo xtask docs` builds.
//!
//! ```text
//! (cd host/page/tests/browser && npm ci --ignore-scripts)
//! cargo test --release -p xtask --test site -- --ignored
//! ```
//!
//! `CHROMIUM` is the path of the browser, `/usr/bin/chromium` by default.

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs Node.js, Chromium and the built site"]
fn site() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the temporary folder is in cargo's output");
    let site = target.join("docs/site");
    assert!(site.join("index.html").exists(), "`cargo xtask docs` builds `{}`", site.display());
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/page/tests/browser");
    let checked = Command::new("node").arg("site.mjs").arg(&site).current_dir(tools).status().expect("node starts");
    assert!(checked.success(), "a check failed, see above");
}
