//! A gateway with one session, which a scripted policy answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gymkhana_chat::{ChatFiles, ChatFormat, NewCall, ReplyPiece};
use gymkhana_gateway::server::Gateway;
use gymkhana_gateway::session::{
    ConversationIds, Outcome, SamplingRule, Served, Session, SessionLimits, SessionSettings,
};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, Sampling, ScoreRequest, Stop, certain,
};
use gymkhana_record::{Sampled, Seed};

/// The reply without tools, and after the answer of a tool.
pub const ANSWER: &str = "The answer is 4.";

pub fn chat() -> ChatFormat {
    let files = ChatFiles {
        tokenizer: include_str!("../../../../tests/golden/chat/tokenizer.json").to_owned(),
        config: include_str!("../../../../tests/golden/chat/tokenizer_config.json").to_owned(),
        template: Some(include_str!("../../../../tests/golden/chat/chat_template.jinja").to_owned()),
    };
    ChatFormat::new(&files).expect("the tests' chat format")
}

/// Calls `add` where the prompt lists tools and holds no answer of one; else gives [`ANSWER`].
pub struct Calculator {
    pub chat: ChatFormat,
    pub delay: Duration,
}

impl Policy for Calculator {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        let prompt = self.chat.decode(&request.tokens).unwrap_or_default();
        let call = NewCall { name: "add", arguments: "{\"a\": 2, \"b\": 2}" };
        let tokens = if prompt.contains("Tools:") && !prompt.contains("<tool_response>") {
            self.chat.encode_calls(&[call])
        } else {
            self.chat.encode_reply(&[ReplyPiece::Plain(ANSWER)])
        };
        let delay = self.delay;
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            let sampled = certain(tokens.map_err(|error| PolicyError::NoReply(error.to_string()))?);
            Ok(Generated { sampled, stop: Stop::Token })
        })
    }

    fn score(&self, _: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async { Err(PolicyError::CannotScore) })
    }

    fn can_score(&self) -> bool {
        false
    }

    fn release(&self, _: Conversation) {}

    fn context(&self) -> usize {
        1 << 16
    }
}

pub fn settings() -> SessionSettings {
    SessionSettings {
        sampling: SamplingRule::Fixed(Sampling::at(1.0)),
        seed: Seed(7),
        limits: SessionLimits {
            turns: 200,
            context_tokens: 1 << 16,
            reply_tokens: 256,
            bytes: 1 << 20,
            program_time: Duration::from_secs(120),
            episode_time: Duration::from_secs(120),
        },
        models: vec!["policy".to_owned()],
        side_models: vec![],
        retry_window: Duration::from_secs(10),
        stop_texts: vec![],
        stop_cache: Arc::default(),
        conversations: ConversationIds::new(Arc::new(AtomicU64::new(0)), 0),
    }
}

/// An HTTP client without proxies.
pub fn client() -> reqwest::Client {
    // Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Where a program finds its session.
#[derive(Clone)]
pub struct Place {
    pub openai: String,
    pub anthropic: String,
    pub key: String,
    pub variables: Vec<(String, String)>,
}

/// Serves a session while `program` runs, and returns its result with what the session holds.
pub async fn serve<T, P: Future<Output = T>>(delay: Duration, program: impl FnOnce(Place) -> P) -> (T, Outcome) {
    let gateway = Gateway::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let policy = Calculator { chat: chat(), delay };
    let mut open = gateway.open(vec!["policy".to_owned()]);
    let place = Place {
        openai: open.openai_url(),
        anthropic: open.anthropic_url(),
        key: open.key().to_owned(),
        variables: open.variables("policy"),
    };
    let chat = chat();
    let mut session = Session::new(&chat, &policy, settings());
    let served = session.serve(&mut open.requests, program(place)).await;
    let Served::Ended(result) = served else { panic!("the session ended by its time") };
    (result, session.into_outcome().expect("sound segments"))
}
