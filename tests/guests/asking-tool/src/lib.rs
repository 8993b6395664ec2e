//! Tool that uses every capability that a run can grant, with one function per import, and returns the results.

use gymkhana_sdk::assets::{self, AssetInfo};
use gymkhana_sdk::http::{self, Header};
use gymkhana_sdk::model::{self, Message, Role};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::tool::{Answer, Info, Snapshot, Tool};
use gymkhana_sdk::{Call, Error, Function, Parameters, clock, plugin, random, text};

/// Counts its calls.
pub struct AskingTool {
    calls: u64,
}

impl Tool for AskingTool {
    type Options = ();

    fn info() -> Info {
        Info::new("Uses every capability that a run can grant")
    }

    fn functions(_options: &()) -> Result<Vec<Function>, Error> {
        let text = |name: &str, what: &str| Parameters::new().text(name, what);
        Ok(vec![
            Function::new("assets", "Lists the mounted files.", Parameters::new()),
            Function::new(
                "read",
                "Reads a mounted file.",
                text("name", "which")
                    .integer("offset", "from where")
                    .optional()
                    .integer("length", "how much")
                    .optional(),
            ),
            Function::new("complete", "Asks the model.", text("words", "what")),
            Function::new(
                "send",
                "Sends a request over HTTP.",
                text("url", "where to")
                    .text("method", "GET if none")
                    .optional()
                    .text("header", "name: value")
                    .optional(),
            ),
            Function::new("ask-and-hang", "Asks the model, then computes without end.", text("words", "what")),
            Function::new("chance", "Draws a number and tells the time.", Parameters::new()),
        ])
    }

    fn open(_setup: Option<Vec<u8>>, _options: &(), _seed: u64) -> Result<Self, Error> {
        Ok(Self { calls: 0 })
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        self.calls += 1;
        let told = match call.name.as_str() {
            "assets" => Ok(assets::names().iter().map(describe).collect::<Vec<_>>().join(" ")),
            "read" => read(call),
            "complete" => complete(call),
            "ask-and-hang" => {
                complete(call)?;
                hang()
            }
            "send" => send(call),
            "chance" => Ok(format!("call {}: {} at {}", self.calls, random::next(), clock::now())),
            _ => return Ok(Answer::no_function(call)),
        };
        Ok(match told {
            Ok(text) => Answer::text(text),
            Err(error) => Answer::failed(format!("{error:?}")),
        })
    }
}

fn hang() -> ! {
    let mut count = 0_u64;
    loop {
        count = std::hint::black_box(count.wrapping_add(1));
    }
}

fn describe(asset: &AssetInfo) -> String {
    format!("{} {} {}", asset.name, asset.size, asset.digest)
}

fn argument(call: &Call, name: &str) -> Result<String, Error> {
    call.text(name).map_err(Error::Invalid)
}

fn read(call: &Call) -> Result<String, Error> {
    let number =
        |name: &str, default: u64| call.integer(name).ok().and_then(|n| u64::try_from(n).ok()).unwrap_or(default);
    let length = u32::try_from(number("length", 100)).unwrap_or(u32::MAX);
    let bytes = assets::read(&argument(call, "name")?, number("offset", 0), length)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn complete(call: &Call) -> Result<String, Error> {
    let message = Message { role: Role::User, content: text(argument(call, "words")?) };
    let request = model::Request { messages: vec![message], max_tokens: 50, temperature: 0.0, stop: vec![] };
    let reply = model::complete(&request)?;
    Ok(format!("{} ({}+{})", reply.text, reply.usage.prompt_tokens, reply.usage.completion_tokens))
}

fn send(call: &Call) -> Result<String, Error> {
    let header = call.text("header").ok().and_then(|header| {
        let (name, value) = header.split_once(": ")?;
        Some(Header { name: name.to_owned(), value: value.to_owned() })
    });
    let request = http::Request {
        method: call.text("method").unwrap_or_else(|_| "GET".to_owned()),
        url: argument(call, "url")?,
        headers: header.into_iter().collect(),
        body: vec![],
        timeout: 5_000,
    };
    let response = http::send(&request)?;
    Ok(format!("{}: {}", response.status, String::from_utf8_lossy(&response.body)))
}

impl Snapshot for AskingTool {
    fn snapshot(&self) -> Vec<u8> {
        Writer::new().integer(self.calls).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let restored = Self { calls: reader.integer()? };
        reader.end()?;
        Ok(restored)
    }
}

plugin! { tool: AskingTool { snapshot } }
