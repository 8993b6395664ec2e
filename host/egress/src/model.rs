//! Completions from a server with OpenAI's protocol, or from a script.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gymkhana_net::http::{Client, StatusCode};
use gymkhana_net::{
    ClientError, Failed, Forbidden, GaveUp, Retry, Secret, check_literal, checked_client, reachable, root_cause,
};
use gymkhana_record::{ModelReply, ModelRequest, ModelRole, Part, Refused, Reply, text_of};
use gymkhana_sandbox::OutboundError;
use gymkhana_waits::{Counterpart, within};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

/// Limit on an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// Delay before the first retry; each later delay is twice as long.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Upper bound of every delay, including one that the server requests.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Statuses of a request that the server rejects for its content, such as its length. They are an answer to the plugin
/// and not a fault of the host.
const REJECTED_CONTENT: [StatusCode; 3] =
    [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY];

/// Source of completions.
pub enum CompletionSource {
    /// A server.
    Server(ModelServer),
    /// These replies in order, restarted for each episode; the last one repeats.
    Script(Vec<String>),
}

impl CompletionSource {
    pub(crate) async fn complete(&self, request: &ModelRequest, earlier: u32) -> Result<Reply, OutboundError> {
        match self {
            Self::Server(server) => server.complete(request).await,
            Self::Script(replies) => scripted(replies, request, earlier).map(Reply::Model),
        }
    }
}

/// Returns a reply of a script; token counts are counts of words.
fn scripted(replies: &[String], request: &ModelRequest, earlier: u32) -> Result<ModelReply, OutboundError> {
    let words = |text: &str| u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX);
    let reply = replies.get(earlier as usize).or(replies.last()).cloned();
    let text = reply.ok_or_else(|| OutboundError("the script of the model has no replies".to_owned()))?;
    let prompt_tokens = request.messages.iter().map(|message| words(&text_of(&message.content))).sum();
    Ok(ModelReply { completion_tokens: words(&text), text, cut: false, prompt_tokens })
}

/// Server with OpenAI's protocol for chat completions.
pub struct ModelServer {
    /// URL including the version, such as `http://127.0.0.1:8000/v1`.
    pub url: Url,
    /// Name of the model on the server.
    pub name: String,
    /// Bearer token.
    pub key: Option<Secret>,
    /// Timeout of one attempt.
    pub time: Duration,
    /// Number of retries.
    pub retries: u32,
    client: Client,
}

impl ModelServer {
    /// Creates a server with three retries and a timeout of one minute.
    ///
    /// # Errors
    /// If the client cannot be set up.
    pub fn new(url: Url, name: String, key: Option<Secret>) -> Result<Self, ClientError> {
        let time = Duration::from_secs(60);
        let client = checked_client(reachable(&url, key.as_ref()))?;
        Ok(Self { url, name, key, time, retries: 3, client })
    }

    async fn complete(&self, request: &ModelRequest) -> Result<Reply, OutboundError> {
        if let Err(forbidden) = self.check_address() {
            return Err(OutboundError(format!("model `{}`: {forbidden}", self.name)));
        }
        let body = match self.body(request) {
            Ok(body) => body.to_string(),
            Err(why) => return Ok(Reply::Refused(Refused::Invalid(why))),
        };
        let retry = Retry { retries: self.retries, first_delay: FIRST_DELAY, max_delay: MAX_DELAY };
        let attempt = || async {
            let attempt = self.attempt(body.clone());
            within(Counterpart::OutboundCall, self.time, attempt).await.unwrap_or_else(|silent| {
                Err(Failed::transient(format!("it did not answer for {} s", silent.waited.as_secs_f64())))
            })
        };
        retry.run(attempt, |_| {}).await.map_err(|GaveUp { failed, attempts }| {
            let (Failed::Transient { error: why, .. } | Failed::Permanent(why)) = failed;
            OutboundError(format!("model `{}` at {}, asked {attempts} times: {why}", self.name, self.url))
        })
    }

    /// Checks a literal address in the URL, which is never resolved.
    fn check_address(&self) -> Result<(), Forbidden> {
        check_literal(&self.url, reachable(&self.url, self.key.as_ref()))
    }

    /// Body of the request.
    fn body(&self, request: &ModelRequest) -> Result<Value, String> {
        let mut messages = Vec::with_capacity(request.messages.len());
        for message in &request.messages {
            let role = match message.role {
                ModelRole::System => "system",
                ModelRole::User => "user",
                ModelRole::Assistant => "assistant",
            };
            messages.push(json!({ "role": role, "content": content(&message.content)? }));
        }
        let mut body = json!({
            "model": self.name,
            "messages": messages,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        });
        if !request.stop.is_empty() {
            body["stop"] = json!(request.stop);
        }
        Ok(body)
    }

    async fn attempt(&self, body: String) -> Result<Reply, Failed<String>> {
        let url = format!("{}/chat/completions", self.url.as_str().trim_end_matches('/'));
        let mut request = self.client.post(url).header("content-type", "application/json").body(body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.reveal());
        }
        let mut response = request.send().await.map_err(|error| Failed::transient(root_cause(&error)))?;
        let status = response.status();
        let pause = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Failed::transient(root_cause(&error)))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ANSWER_BYTES {
                return Err(Failed::Permanent(format!("its answer is larger than {MAX_ANSWER_BYTES} bytes")));
            }
        }
        if let Some(key) = &self.key {
            bytes = key.hide_in(bytes);
        }
        if !status.is_success() {
            let again = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            let why = format!("it answered {status}: {:.200}", String::from_utf8_lossy(&bytes));
            if REJECTED_CONTENT.contains(&status) {
                return Ok(Reply::Refused(Refused::Invalid(format!("the model rejects the request: {why}"))));
            }
            return Err(if again {
                Failed::Transient { error: why, retry_after: pause.map(Duration::from_secs) }
            } else {
                Failed::Permanent(why)
            });
        }
        read(&bytes).map(Reply::Model).map_err(Failed::transient)
    }
}

/// Encodes content: a text, or a list of parts if it contains images.
fn content(content: &[Part]) -> Result<Value, String> {
    if content.iter().all(|part| matches!(part, Part::Text(_))) {
        return Ok(text_of(content).into());
    }
    let part = |part: &Part| match part {
        Part::Text(text) => Ok(json!({ "type": "text", "text": text })),
        Part::Image(image) => {
            let url = format!("data:{};base64,{}", image.mime, BASE64_STANDARD.encode(&image.bytes));
            Ok(json!({ "type": "image_url", "image_url": { "url": url } }))
        }
        Part::Audio(other) | Part::Video(other) | Part::Other(other) => {
            Err(format!("a message contains `{}`, but models accept only text and images", other.mime))
        }
    };
    content.iter().map(part).collect()
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<CompletionChoice>,
    usage: TokenUsage,
}

#[derive(Deserialize)]
struct CompletionChoice {
    message: CompletionMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct CompletionMessage {
    content: Option<String>,
}

#[derive(Deserialize)]
struct TokenUsage {
    prompt_tokens: u32,
    #[serde(default)]
    completion_tokens: u32,
}

fn read(bytes: &[u8]) -> Result<ModelReply, String> {
    let Completion { choices, usage } = serde_json::from_slice(bytes)
        .map_err(|error| format!("its answer {} is not a chat completion with usage: {error}", excerpt(bytes)))?;
    let choice = choices.into_iter().next().ok_or("its answer has no choice")?;
    let cut = choice.finish_reason.as_deref() == Some("length");
    let text = match choice.message.content {
        Some(text) => text,
        // A reply that was cut during the reasoning has no text yet.
        None if cut => String::new(),
        None => return Err(format!("its answer {} has no text", excerpt(bytes))),
    };
    Ok(ModelReply { text, cut, prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens })
}

fn excerpt(bytes: &[u8]) -> String {
    format!("`{:.100}`", String::from_utf8_lossy(bytes))
}
