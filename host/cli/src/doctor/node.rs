//! Node.js and npm, for plugins in JavaScript.

use std::path::Path;

use gymkhana_finding::Finding;

use super::programs::{first_line, major_minor};
use crate::plugin::build::tools::NODE_MISSING;

const CHECK: &str = "node";

/// Oldest major version that the SDK supports.
const OLDEST: u32 = 18;

/// State of Node.js.
pub struct NodeState {
    /// Output of `node --version`; `None` without Node.js.
    pub node: Option<String>,
    /// Output of `npm --version`; `None` without npm.
    pub npm: Option<String>,
}

/// Asks the installed programs.
pub fn probe() -> NodeState {
    let version = |program: &str| first_line(Path::new(program), &["--version"]);
    NodeState { node: version("node"), npm: version("npm") }
}

/// Checks that plugins in JavaScript can be built.
pub fn check(facts: &NodeState) -> Finding {
    let Some(node) = &facts.node else { return Finding::warn(CHECK, NODE_MISSING) };
    if major_minor(node).is_none_or(|(major, _)| major < OLDEST) {
        let message = format!("Node.js {node} is too old for the SDK\nhint: install Node.js {OLDEST} or newer");
        return Finding::warn(CHECK, message);
    }
    match &facts.npm {
        Some(npm) => Finding::ok(CHECK, format!("Node.js {node}, npm {npm}")),
        None => Finding::warn(
            CHECK,
            format!("Node.js {node} without npm\nhint: on Debian or Ubuntu run `apt-get install npm`"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_finding::FindingStatus;

    #[test]
    fn node_needs_a_version_and_npm() {
        for (node, npm, status, text) in [
            (None, None, FindingStatus::Warn, "Node.js is not installed"),
            (Some("v16.20.0"), Some("8.19.4"), FindingStatus::Warn, "Node.js v16.20.0 is too old for the SDK"),
            (Some("v18.0.0"), None, FindingStatus::Warn, "Node.js v18.0.0 without npm"),
            (Some("v20.19.1"), Some("10.8.2"), FindingStatus::Ok, "Node.js v20.19.1, npm 10.8.2"),
        ] {
            let owned = |version: Option<&str>| version.map(str::to_owned);
            let finding = check(&NodeState { node: owned(node), npm: owned(npm) });
            assert_eq!((finding.status, finding.text.as_str()), (status, text));
        }
    }
}
