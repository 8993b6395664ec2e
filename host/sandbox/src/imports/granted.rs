//! Imports that need a grant: assets, models, tools and HTTP.
//!
//! An outbound call suspends the guest's fiber. The wait counts neither towards the guest's running time nor towards
//! the wall-clock limit of the call; outbound calls have their own limits.

use gymkhana_record::{
    Call, HttpRequest, HttpResponse, ModelMessage, ModelReply, ModelRequest, ModelRole, Part, Question, Refused, Reply,
};
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Error, Result};

use super::assets::AssetContent;
use super::outbound::OutboundError;
use crate::bindings::gymkhana::plugin::{assets, http, model, tools, types};
use crate::convert;
use crate::instance::store_data::{StoreData, TooManyBytes};

/// Links them.
pub(super) fn link(linker: &mut Linker<StoreData>) -> Result<()> {
    assets::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    model::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    tools::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)?;
    http::add_to_linker::<_, HasSelf<StoreData>>(linker, |data| data)
}

/// Error for a reply of another kind than its question.
fn other_kind<T>() -> Result<T> {
    Err(Error::new(OutboundError("the reply is of another kind than the question".to_owned())))
}

fn refusal(refused: Refused) -> types::Error {
    match refused {
        Refused::Denied(why) => types::Error::Denied(why),
        Refused::Invalid(why) => types::Error::Invalid(why),
        Refused::NotFound(why) => types::Error::NotFound(why),
        Refused::Failed(why) => types::Error::Other(why),
    }
}

impl StoreData {
    /// Performs an outbound call while the guest waits.
    async fn ask(&mut self, question: &Question) -> Result<Reply> {
        let Some(outbound) = &self.outbound else { return Ok(Reply::Refused(outside_episode())) };
        // The owner of the episode counts earlier calls, not this crate.
        Ok(self.timer.wait_outbound(outbound.ask(question, 0)).await?)
    }
}

/// Refusal of an outbound call outside an episode.
fn outside_episode() -> Refused {
    Refused::Denied("outbound calls are allowed only during an episode, a session or a scoring".to_owned())
}

impl assets::Host for StoreData {
    fn names(&mut self) -> Result<Vec<assets::AssetInfo>> {
        let info = |(name, asset): (&String, &AssetContent)| assets::AssetInfo {
            name: name.clone(),
            size: asset.size(),
            digest: asset.digest().to_string(),
        };
        Ok(self.assets.iter().map(info).collect())
    }

    fn read(&mut self, name: String, offset: u64, length: u32) -> Result<Result<Vec<u8>, types::Error>> {
        let Some(asset) = self.assets.get(&name) else {
            let mounted = self.assets.listed();
            let why = format!("no asset is mounted as `{name}`; mounted: {mounted}");
            return Ok(Err(types::Error::NotFound(why)));
        };
        let available = asset.available(offset, length);
        if available > self.result_bytes as u64 {
            return Err(Error::new(TooManyBytes(available)));
        }
        Ok(Ok(asset.read(offset, length)?))
    }
}

impl model::Host for StoreData {
    async fn complete(&mut self, request: model::Request) -> Result<Result<model::Reply, types::Error>> {
        if !request.temperature.is_finite() {
            return Ok(Err(types::Error::Invalid("the temperature is not a finite number".to_owned())));
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
        model::Role::System => ModelRole::System,
        model::Role::User => ModelRole::User,
        model::Role::Assistant => ModelRole::Assistant,
    };
    ModelMessage { role, content: convert::content(message.content) }
}

fn model_reply(reply: ModelReply) -> model::Reply {
    let ModelReply { text, cut, prompt_tokens, completion_tokens } = reply;
    model::Reply { text, cut, usage: model::Usage { prompt_tokens, completion_tokens } }
}

impl http::Host for StoreData {
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

impl tools::Host for StoreData {
    async fn functions(&mut self) -> Result<Vec<types::Function>> {
        let functions = self.outbound.as_ref().map_or_else(Vec::new, |outbound| outbound.functions());
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

pub(super) fn parts(content: Vec<Part>) -> Vec<types::PartResult> {
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
