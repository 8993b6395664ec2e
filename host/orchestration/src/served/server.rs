//! The inference server of a run file, connected.

use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::ServerSection;
use gymkhana_net::{Secret, StatusSink};
use gymkhana_policy_server::{ServerPool, ServerSettings};

use crate::error::{Classify, RunResult};
use crate::grants::secret;
use crate::report::Reporter;

/// Size of the model that a server must serve.
#[derive(Debug, Clone, Copy)]
pub struct ModelSize {
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// Context length in tokens.
    pub context: usize,
}

/// Connects to the run file's servers, which serve a model of this size with this chat format.
///
/// # Errors
/// If the key is missing, or a server cannot be reached, has no such model or gives no tokens.
pub async fn connect(
    section: &ServerSection,
    size: ModelSize,
    chat: ChatFormat,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<ServerPool> {
    let settings = ServerSettings {
        url: section.url.clone(),
        protocol: section.protocol,
        model: section.name.clone(),
        key: key(section)?,
        policy: section.request_policy(),
        update: section.update_policy(),
        requests: section.requests,
        vocabulary: size.vocabulary,
        context: size.context,
        max_divergence: section.max_divergence,
    };
    ServerPool::connect(&settings, &section.urls, chat, || status_sink(reporter)).await.user_error()
}

/// Key of the server, if it needs one.
pub(crate) fn key(section: &ServerSection) -> RunResult<Option<Secret>> {
    section.key_env.as_ref().map(|env| secret(env, "policy.server.key_env")).transpose()
}

/// Reports status messages of a client as warnings.
pub fn status_sink(reporter: &Arc<dyn Reporter>) -> StatusSink {
    let reporter = Arc::clone(reporter);
    Box::new(move |text: String| reporter.warn(&text))
}
