//! What the host answers to the imports that need a grant: assets, models, tools and HTTP.
//!
//! A question to the world leaves the guest's fiber waiting. That wait is not the guest's own time: neither its budget
//! nor the wall cap counts it, and the world has limits of its own.

use gymkhana_record::{
    Call, HttpRequest, HttpResponse, ModelMessage, ModelReply, ModelRequest, Part, Question, Refused, Reply, Speaks,
};
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Error, Result};

use crate::bindings::gymkhana::plugin::{assets, http, model, tools, types};
use crate::state::{State, TooManyBytes};
use crate::{OutboundError, convert};

/// Links them.
pub(crate) fn link(linker: &mut Linker<State>) -> Result<()> {
    assets::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    model::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    tools::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    http::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

/// What a guest is told for an answer of another kind than its question: nobody sends that.
fn other_kind<T>() -> Result<T> {
    Err(Error::new(OutboundError("the world answered another question than was asked".to_owned())))
}

fn refusal(refused: Refused) -> types::Error {
    match refused {
        Refused::Denied(why) => types::Error::Denied(why),
        Refused::Invalid(why) => types::Error::Invalid(why),
        Refused::NotFound(why) => types::Error::NotFound(why),
        Refused::Failed(why) => types::Error::Other(why),
    }
}

impl State {
    /// Asks the world, while the guest waits.
    async fn ask(&mut self, question: &Question) -> Result<Reply> {
        let Some(world) = &self.world else { return Ok(Reply::Refused(nobody())) };
        // How often a plugin has asked is known to whoever keeps its episode, not here.
        Ok(self.meter.waiting(world.ask(question, 0)).await?)
    }
}

/// There is no world but in an episode.
fn nobody() -> Refused {
    Refused::Denied("nothing outside can be asked before an episode, a session or a scoring has begun".to_owned())
}

impl assets::Host for State {
    fn names(&mut self) -> Result<Vec<assets::AssetInfo>> {
        let info = |(name, asset): (&String, &crate::assets::Asset)| assets::AssetInfo {
            name: name.clone(),
            size: asset.bytes.len() as u64,
            digest: asset.digest.to_string(),
        };
        Ok(self.assets.iter().map(info).collect())
    }

    fn read(&mut self, name: String, offset: u64, length: u32) -> Result<Result<Vec<u8>, types::Error>> {
        let Some(bytes) = self.assets.read(&name, offset, length) else {
            let mounted = self.assets.listed();
            let why = format!("no asset is mounted as `{name}`; there is {mounted}");
            return Ok(Err(types::Error::NotFound(why)));
        };
        if bytes.len() > self.result_bytes {
            return Err(Error::new(TooManyBytes(bytes.len() as u64)));
        }
        Ok(Ok(bytes.to_vec()))
    }
}

impl model::Host for State {
    async fn complete(&mut self, request: model::Request) -> Result<Result<model::Reply, types::Error>> {
        if !request.temperature.is_finite() {
            return Ok(Err(types::Error::Invalid("the temperature is no finite number".to_owned())));
        }
        let question = Question::Model(ModelRequest {
            messages: request.messages.into_iter().map(message).collect(),
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            stop: request.stop,
        });
        match self.ask(&question).await? {
            Reply::Model(reply) => Ok(Ok(model_reply(reply))),
            Reply::Refused(refused) => Ok(Err(refusal(refused))),
            Reply::Http(_) | Reply::Tool(_) => other_kind(),
        }
    }
}

fn message(message: model::Message) -> ModelMessage {
    let role = match message.role {
        model::Role::System => Speaks::System,
        model::Role::User => Speaks::User,
        model::Role::Assistant => Speaks::Assistant,
    };
    ModelMessage { role, content: convert::content(message.content) }
}

fn model_reply(reply: ModelReply) -> model::Reply {
    let ModelReply { text, cut, prompt_tokens, completion_tokens } = reply;
    model::Reply { text, cut, usage: model::Usage { prompt_tokens, completion_tokens } }
}

impl http::Host for State {
    async fn send(&mut self, request: http::Request) -> Result<Result<http::Response, types::Error>> {
        let question = Question::Http(HttpRequest {
            method: request.method,
            url: request.url,
            headers: request.headers.into_iter().map(|header| (header.name, header.value)).collect(),
            body: request.body,
            timeout_ms: request.timeout,
        });
        match self.ask(&question).await? {
            Reply::Http(response) => Ok(Ok(http_response(response))),
            Reply::Refused(refused) => Ok(Err(refusal(refused))),
            Reply::Model(_) | Reply::Tool(_) => other_kind(),
        }
    }
}

fn http_response(response: HttpResponse) -> http::Response {
    let header = |(name, value)| http::Header { name, value };
    http::Response {
        status: response.status,
        headers: response.headers.into_iter().map(header).collect(),
        body: response.body,
    }
}

impl tools::Host for State {
    async fn functions(&mut self) -> Result<Vec<types::Function>> {
        let functions = self.world.as_ref().map(|world| world.functions()).unwrap_or_default();
        let function = |function: gymkhana_record::Function| types::Function {
            name: function.name,
            description: function.description,
            parameters: function.parameters,
            cost: function.cost,
        };
        Ok(functions.into_iter().map(function).collect())
    }

    async fn call(&mut self, call: types::CallResult) -> Result<Result<tools::Answer, types::Error>> {
        let question = Question::Tool(Call { id: call.id, name: call.name, arguments: call.arguments });
        match self.ask(&question).await? {
            Reply::Tool(reply) => Ok(Ok(tools::Answer { content: parts(reply.content), failed: reply.failed })),
            Reply::Refused(refused) => Ok(Err(refusal(refused))),
            Reply::Model(_) | Reply::Http(_) => other_kind(),
        }
    }
}

fn parts(content: Vec<Part>) -> Vec<types::PartResult> {
    let media = |media: gymkhana_record::Media| types::MediaResult { mime: media.mime, bytes: media.bytes };
    let part = |part| match part {
        Part::Text(text) => types::PartResult::Text(text),
        Part::Image(image) => types::PartResult::Image(media(image)),
        Part::Audio(audio) => types::PartResult::Audio(media(audio)),
        Part::Video(video) => types::PartResult::Video(media(video)),
        Part::Other(other) => types::PartResult::Other(media(other)),
    };
    content.into_iter().map(part).collect()
}
