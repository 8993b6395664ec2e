//! `host generate`: what a model says to a prompt or a conversation, shown as it is sampled.

use std::io::Read;
use std::sync::Arc;

use gymkhana_chat::{ChatFiles, ChatFormat, Extension, Message, Rendered, Role, StopTexts};
use gymkhana_policy::{Conversation, GenerateRequest, Generated, Policy, Stop, StopCondition};
use gymkhana_record::Seed;
use gymkhana_trainer::{ModelFiles, Settings, Trainer};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::args::GenerateArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use gymkhana_run::setup::chat::chat_files;
use gymkhana_run::setup::models::{Models, named};

/// What stands for the chat template where a text is continued as it is.
const NO_TEMPLATE: &str = "{% for message in messages %}{{ message.content }}{% endfor %}";

/// Generates and prints.
pub fn generate(args: &GenerateArgs, printer: &Printer) -> CliResult<()> {
    let sampling = args.sampling.sampling()?;
    let checkpoint = named(&args.model, args.revision.as_deref())?;
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => read_input()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    runtime.block_on(async {
        let folder = Models::of(checkpoint, &printer.reporter()).await?;
        let chat = chat_format(&ModelFiles::read(&folder).user_error()?, args.raw)?;
        let tokens =
            if args.raw { chat.encode_raw(&prompt).user_error()? } else { conversation(args, &prompt, &chat)? };
        if tokens.is_empty() {
            return Err(CliError::user(
                "there is nothing to go on from; give a prompt, or write one to standard input",
            ));
        }
        let context = (tokens.len() + args.max_tokens).max(2);
        let settings = Settings {
            slots: 1,
            context: Some(context),
            threads: args.threads,
            learns: false,
            device: args.device,
            ..Settings::default()
        };
        let trainer = Trainer::open(&folder, &settings).user_error()?;
        let (token_sink, heard) = unbounded_channel();
        let request = GenerateRequest {
            conversation: Conversation { id: 0, place: 0 },
            tokens: tokens.into(),
            max_tokens: args.max_tokens,
            stop: chat.stop().into(),
            stop_texts: StopTexts::new(&args.stop, &chat).map(|texts| Arc::new(texts) as Arc<dyn StopCondition>),
            sampling,
            seed: Seed(args.seed),
            token_sink: (!args.json).then_some(token_sink),
        };
        let begun = std::time::Instant::now();
        let (generated, ()) = tokio::join!(trainer.generate(request), show(heard, &chat, printer));
        let generated = generated.user_error()?;
        if args.json {
            printer.json(as_json(&generated, &chat)?);
        } else {
            printer.result("");
            let (count, seconds) = (generated.sampled.tokens.len(), begun.elapsed().as_secs_f64());
            printer.status(format!(
                "{count} tokens, {}, {:.1}/s",
                ended(generated.stop),
                count as f64 / seconds.max(1e-9)
            ));
        }
        Ok(())
    })
}

/// What stands on standard input, without the line end that a terminal puts behind it.
fn read_input() -> CliResult<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .user_context("standard input cannot be read; write a text in UTF-8 to it")?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

/// The model's chat format; where a text is continued as it is, of a model that has none too.
fn chat_format(files: &ModelFiles, raw: bool) -> CliResult<ChatFormat> {
    let mut texts = chat_files(files);
    if raw {
        texts = ChatFiles { template: Some(NO_TEMPLATE.to_owned()), ..texts };
    }
    ChatFormat::new(&texts).user_error()
}

/// A message as it is given in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    role: String,
    content: String,
}

/// The tokens of a conversation in which the model is to speak next.
fn conversation(args: &GenerateArgs, prompt: &str, chat: &ChatFormat) -> CliResult<Vec<u32>> {
    let mut messages: Vec<Message> = Vec::new();
    messages.extend(args.system.iter().map(|text| Message::of_text(Role::System, text)));
    if args.messages {
        let wrong = "the messages are no list such as [{\"role\": \"user\", \"content\": \"Hello\"}]; write them so";
        let given: Vec<Given> = serde_json::from_str(prompt).user_context(wrong)?;
        for Given { role, content } in given {
            messages.push(Message::of_text(role_of(&role)?, content));
        }
    } else if !prompt.is_empty() {
        messages.push(Message::of_text(Role::User, prompt));
    }
    if messages.is_empty() {
        return Ok(vec![]);
    }
    match chat.extend(&Rendered::default(), &messages, &[], false).user_error()?.0 {
        Extension::Restart(tokens) | Extension::Append(tokens) => Ok(tokens),
    }
}

fn role_of(name: &str) -> CliResult<Role> {
    match name {
        "system" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        _ => Err(CliError::user(format!("a message's role is `{name}`; it must be system, user, assistant or tool"))),
    }
}

fn ended(stop: Stop) -> &'static str {
    match stop {
        Stop::Token => "ended by the model",
        Stop::Text => "ended by a stop text",
        Stop::Length => "cut off by --max-tokens or the model's context",
    }
}

fn as_json(generated: &Generated, chat: &ChatFormat) -> CliResult<String> {
    let sampled = &generated.sampled;
    let stop = match generated.stop {
        Stop::Token => "token",
        Stop::Text => "text",
        Stop::Length => "length",
    };
    let text = chat.decode_reply(&sampled.tokens).user_error()?;
    let reply = json!({ "text": text, "stop": stop, "tokens": sampled.tokens, "log_probs": sampled.log_probs });
    Ok(reply.to_string())
}

/// Shows tokens as they come, but for the one that ends the reply.
async fn show(mut heard: UnboundedReceiver<u32>, chat: &ChatFormat, printer: &Printer) {
    let mut text = Streamed::default();
    while let Some(token) = heard.recv().await {
        if !chat.stop().contains(&token) {
            printer.piece(&text.push(token, |tokens| chat.decode(tokens).unwrap_or_default()));
        }
    }
    printer.piece(&text.rest(|tokens| chat.decode(tokens).unwrap_or_default()));
}

/// The text of tokens that come one by one. Letters may lie in several tokens: they are shown when they are whole.
#[derive(Default)]
struct Streamed {
    tokens: Vec<u32>,
    /// Where decoding begins: far enough before what is new, since some tokenizers treat a first token otherwise.
    from: usize,
    /// Up to where the text has been shown.
    shown: usize,
}

impl Streamed {
    /// What a token adds to the text that is whole.
    fn push(&mut self, token: u32, decode: impl Fn(&[u32]) -> String) -> String {
        self.tokens.push(token);
        self.new_text(|text| !text.ends_with(char::REPLACEMENT_CHARACTER), decode)
    }

    /// What is left at the end, whole or not.
    fn rest(&mut self, decode: impl Fn(&[u32]) -> String) -> String {
        self.new_text(|_| true, decode)
    }

    fn new_text(&mut self, is_whole: impl Fn(&str) -> bool, decode: impl Fn(&[u32]) -> String) -> String {
        let before = decode(&self.tokens[self.from..self.shown]);
        let now = decode(&self.tokens[self.from..]);
        let Some(new) = now.strip_prefix(before.as_str()).filter(|_| is_whole(&now)) else { return String::new() };
        (self.from, self.shown) = (self.shown, self.tokens.len());
        new.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().map(|token| *token as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn letters_of_several_tokens_are_shown_when_they_are_whole() {
        for text in ["plain", "ä漢🙂, then 字", "🙂🙂"] {
            let mut streamed = Streamed::default();
            let shown: Vec<String> = text.bytes().map(|byte| streamed.push(u32::from(byte), bytes)).collect();
            assert_eq!(shown.concat() + &streamed.rest(bytes), text);
            assert!(shown.iter().all(|piece| !piece.contains(char::REPLACEMENT_CHARACTER)));
        }
        // What never becomes a letter is shown at the end, or with what comes behind it.
        let mut streamed = Streamed::default();
        assert_eq!(streamed.push(0xe6, bytes), "");
        assert_eq!(streamed.rest(bytes), "\u{fffd}");
        let mut streamed = Streamed::default();
        assert_eq!([0xff, 0x41].map(|byte| streamed.push(byte, bytes)), ["", "\u{fffd}A"]);
    }
}
