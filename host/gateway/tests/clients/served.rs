//! A gateway with one session, which a scripted policy answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::BoxFuture;
use gymkhana_chat::{Begun, ChatFiles, ChatFormat, NewCall, NewReply, ReplyPiece};
use gymkhana_gateway::server::Gateway;
use gymkhana_gateway::session::{
    AgentSession, AgentSessionLimits, CallPerformer, ConversationIds, Performed, ProgramTools, SamplingRule, ServeEnd,
    SessionOutcome, SessionSettings, ToolCallAnswer,
};
use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, Sampling, ScoreRequest, Stop, certain,
};
use gymkhana_record::{Call, Function, Part, Sampled, Seed, Turn};
use serde_json::{Value as Json, json};

/// The reply without tools, and after the answer of a tool.
pub const ANSWER: &str = "The answer is 4.";

pub fn chat() -> ChatFormat {
    let files = ChatFiles {
        tokenizer: include_str!("../../../../tests/golden/chat/tokenizer.json").to_owned(),
        config: include_str!("../../../../tests/golden/chat/tokenizer_config.json").to_owned(),
        template: Some(include_str!("../../../../tests/golden/chat/chat_template.jinja").to_owned()),
        ends: vec![],
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
            self.chat.write_reply(&NewReply { calls: &[call], ..NewReply::default() }, Begun::No)
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
        limits: AgentSessionLimits {
            turns: 200,
            context_tokens: 1 << 16,
            reply_tokens: 256,
            reasoning_tokens: None,
            bytes: 64 << 20,
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

/// A tool that adds.
fn add() -> Function {
    Function {
        name: "add".to_owned(),
        description: "Adds two numbers.".to_owned(),
        parameters: json!({
            "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"],
        })
        .to_string(),
        cost: 0.5,
    }
}

/// Performs calls of `add`.
struct Adder;

impl CallPerformer for Adder {
    fn perform(&mut self, call: Call, listed: bool) -> BoxFuture<'_, Performed> {
        let arguments: Json = serde_json::from_str(&call.arguments).expect("the gateway sends JSON");
        let sum = arguments["a"].as_i64().zip(arguments["b"].as_i64()).map(|(a, b)| a + b);
        let (text, failed) = match sum.filter(|_| call.name == "add") {
            Some(sum) => (sum.to_string(), false),
            None => (format!("`{}` cannot be called with {}", call.name, call.arguments), true),
        };
        let content = vec![Part::Text(text)];
        let answer = Turn::Answer { seat: 0, id: call.id.clone(), content: content.clone(), failed };
        let own = (!listed).then_some(Turn::Call { seat: 0, call, cost: 0.5 });
        let turns = own.into_iter().chain([answer]).collect();
        let answer = ToolCallAnswer { content, failed, done: false };
        Box::pin(async { Performed::Answered { turns, cost: 0.5, steps: 0, added: None, answer } })
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
    pub mcp: String,
    pub variables: Vec<(String, String)>,
}

/// Serves a session while `program` runs, and returns its result with what the session holds.
pub async fn serve<T, P: Future<Output = T>>(delay: Duration, program: impl FnOnce(Place) -> P) -> (T, SessionOutcome) {
    serve_by(&Calculator { chat: chat(), delay }, program).await
}

/// As [`serve`], with another policy. The session offers a tool `add` by MCP.
pub async fn serve_by<T, P: Future<Output = T>>(
    policy: &dyn Policy,
    program: impl FnOnce(Place) -> P,
) -> (T, SessionOutcome) {
    let gateway = Gateway::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let mut open = gateway.open_with_tools(vec!["policy".to_owned()], vec![add()]);
    let place = Place {
        openai: open.openai_url(),
        anthropic: open.anthropic_url(),
        key: open.key().to_owned(),
        mcp: open.mcp_url().expect("it offers tools"),
        variables: open.variables("policy"),
    };
    let chat = chat();
    let mut session = AgentSession::new(&chat, policy, settings());
    let tools = ProgramTools { requests: &mut open.tool_requests, toolbox: &mut Adder };
    let served = session.serve_with(&mut open.requests, tools, program(place)).await;
    let ServeEnd::Ended(result) = served else { panic!("the session ended by its time") };
    (result, session.into_outcome().expect("sound segments"))
}
