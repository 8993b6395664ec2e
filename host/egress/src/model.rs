//! Completions: from a server that speaks OpenAI's protocol, or from a script.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gymkhana_net::{
    ClientError, Failed, Forbidden, GaveUp, Retry, Secret, check_literal, checked_client, reachable, root_cause,
};
use gymkhana_record::{ModelReply, ModelRequest, Part, Refused, Reply, Speaks, text_of};
use gymkhana_sandbox::OutboundError;
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

/// The most that is read of one answer, in bytes.
const LARGEST_ANSWER: usize = 8 << 20;
/// The first pause before a question is asked again; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, also where a server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What a server says of a question that it will never answer, such as one that is too long. That is an answer, and no
/// fault of the host: whoever wrote the question must live with it.
const OF_THE_QUESTION: [StatusCode; 3] =
    [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY];

/// Who completes.
pub enum Model {
    /// A server.
    Server(ModelServer),
    /// These replies, in their order, anew for each episode; the last is given again and again.
    Script(Vec<String>),
}

impl Model {
    pub(crate) async fn complete(&self, request: &ModelRequest, earlier: u32) -> Result<Reply, OutboundError> {
        match self {
            Self::Server(server) => server.complete(request).await,
            Self::Script(replies) => Ok(Reply::Model(scripted(replies, request, earlier))),
        }
    }
}

/// A script has no tokens: words stand for them.
fn scripted(replies: &[String], request: &ModelRequest, earlier: u32) -> ModelReply {
    let words = |text: &str| u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX);
    let text = replies.get(earlier as usize).or(replies.last()).cloned().unwrap_or_default();
    let prompt_tokens = request.messages.iter().map(|message| words(&text_of(&message.content))).sum();
    ModelReply { completion_tokens: words(&text), text, cut: false, prompt_tokens }
}

/// A server that speaks OpenAI's protocol for chat completions.
pub struct ModelServer {
    /// Where it is, up to and with the version, such as `http://127.0.0.1:8000/v1`.
    pub url: Url,
    /// What it calls the model.
    pub name: String,
    /// What it is to know us by.
    pub key: Option<Secret>,
    /// How long one answer may take.
    pub time: Duration,
    /// How often it is asked again when it fails.
    pub retries: u32,
    client: Client,
}

impl ModelServer {
    /// A server that is asked three times more if it fails, for a minute each time.
    ///
    /// # Errors
    /// If no client can be set up.
    pub fn new(url: Url, name: String, key: Option<Secret>) -> Result<Self, ClientError> {
        let time = Duration::from_secs(60);
        let client = checked_client(reachable(&url, key.as_ref()))?;
        Ok(Self { url, name, key, time, retries: 3, client })
    }

    async fn complete(&self, request: &ModelRequest) -> Result<Reply, OutboundError> {
        if let Err(forbidden) = self.client_may_go_there() {
            return Err(OutboundError(format!("model `{}`: {forbidden}", self.name)));
        }
        let body = match self.body(request) {
            Ok(body) => body.to_string(),
            Err(why) => return Ok(Reply::Refused(Refused::Invalid(why))),
        };
        let retry = Retry { retries: self.retries, first_delay: FIRST_PAUSE, max_delay: LONGEST_PAUSE };
        let attempt = || async {
            let attempt = self.attempt(body.clone());
            tokio::time::timeout(self.time, attempt).await.unwrap_or_else(|_| {
                Err(Failed::transient(format!("it did not answer within {} s", self.time.as_secs_f64())))
            })
        };
        retry.run(attempt, |_| {}).await.map_err(|GaveUp { failed, attempts }| {
            let (Failed::Transient { error: why, .. } | Failed::Permanent(why)) = failed;
            OutboundError(format!("model `{}` at {}, asked {attempts} times: {why}", self.name, self.url))
        })
    }

    /// An address in the URL itself is never resolved, so it is looked at here.
    fn client_may_go_there(&self) -> Result<(), Forbidden> {
        check_literal(&self.url, reachable(&self.url, self.key.as_ref()))
    }

    /// The request as the protocol wants it.
    fn body(&self, request: &ModelRequest) -> Result<Value, String> {
        let mut messages = Vec::with_capacity(request.messages.len());
        for message in &request.messages {
            let role = match message.role {
                Speaks::System => "system",
                Speaks::User => "user",
                Speaks::Assistant => "assistant",
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
            if bytes.len() > LARGEST_ANSWER {
                return Err(Failed::Permanent(format!("its answer is larger than {LARGEST_ANSWER} bytes")));
            }
        }
        if let Some(key) = &self.key {
            bytes = key.hide_in(bytes);
        }
        if !status.is_success() {
            let again = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            let why = format!("it answered {status}: {:.200}", String::from_utf8_lossy(&bytes));
            if OF_THE_QUESTION.contains(&status) {
                return Ok(Reply::Refused(Refused::Invalid(format!("the model refuses the question: {why}"))));
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

/// A content as the protocol writes it: a text, or a list of parts where there are images.
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
            Err(format!("a message holds `{}`, but a model is sent only text and images", other.mime))
        }
    };
    content.iter().map(part).collect()
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Usage,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u32,
    #[serde(default)]
    completion_tokens: u32,
}

fn read(bytes: &[u8]) -> Result<ModelReply, String> {
    let Completion { choices, usage } = serde_json::from_slice(bytes)
        .map_err(|error| format!("its answer is no chat completion with usage, but {}: {error}", excerpt(bytes)))?;
    let choice = choices.into_iter().next().ok_or("its answer has no choice")?;
    Ok(ModelReply {
        text: choice.message.content.unwrap_or_default(),
        cut: choice.finish_reason.as_deref() == Some("length"),
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
    })
}

fn excerpt(bytes: &[u8]) -> String {
    format!("`{:.100}`", String::from_utf8_lossy(bytes))
}
