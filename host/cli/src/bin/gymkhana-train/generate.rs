//! `host generate`: prints a model's reply to a prompt or a conversation as it is sampled.

use std::io::Read;
use std::sync::Arc;

use gymkhana_chat::{ChatFiles, ChatFormat, Extension, Message, Rendered, Role, StopTexts};
use gymkhana_policy::{Conversation, GenerateRequest, Generated, Policy, Stop, StopCondition};
use gymkhana_record::Seed;
use gymkhana_trainer::{ModelFiles, Trainer, TrainerSettings};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use gymkhana_cli::args::GenerateArgs;
use gymkhana_cli::error::{Classify, CliError, CliResult};
use gymkhana_cli::printer::Printer;
use gymkhana_run::setup::chat::chat_files;
use gymkhana_run::setup::models::{Models, named};

/// Template that continues a text without a chat format.
const NO_TEMPLATE: &str = "{% for message in messages %}{{ message.content }}{% endfor %}";

/// Runs the command.
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
        let chat = chat_format(&ModelFiles::read(&folder).user_error()?, args)?;
        warn_of_switches(&chat, printer);
        let tokens =
            if args.raw { chat.encode_raw(&prompt).user_error()? } else { conversation(args, &prompt, &chat)? };
        if tokens.is_empty() {
            return Err(CliError::user("the prompt is empty\nhint: give a prompt, or write one to standard input"));
        }
        let context = (tokens.len() + args.max_tokens).max(2);
        let settings = TrainerSettings {
            max_concurrent_sequences: 1,
            context: Some(context),
            threads: args.threads,
            learns: false,
            device: args.device,
            ..TrainerSettings::default()
        };
        let trainer = Trainer::open(&folder, &settings).user_error()?;
        trainer.warnings().iter().for_each(|warning| printer.status(format!("warning: {warning}")));
        let (token_sink, tokens_sampled) = unbounded_channel();
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
        let (generated, shown) = tokio::join!(trainer.generate(request), show(tokens_sampled, &chat, printer));
        let generated = generated.user_error()?;
        shown?;
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

/// Standard input without its last line end.
fn read_input() -> CliResult<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .user_context("standard input cannot be read\nhint: write UTF-8 text to it")?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

/// Chat format of the model; `--raw` replaces its template.
fn chat_format(files: &ModelFiles, args: &GenerateArgs) -> CliResult<ChatFormat> {
    let mut texts = chat_files(files);
    if args.raw {
        texts = ChatFiles { template: Some(NO_TEMPLATE.to_owned()), ..texts };
    }
    let chat = ChatFormat::new(&texts).user_error()?;
    Ok(if args.template.is_empty() { chat } else { chat.with_switches(args.template.iter().cloned().collect()) })
}

/// Names variables of `--template` that the template does not read.
fn warn_of_switches(chat: &ChatFormat, printer: &Printer) {
    for name in chat.report().unread_switches {
        let hint = "correct the name, or leave it out";
        printer.status(format!("warning: --template: the chat template reads no variable `{name}`\nhint: {hint}"));
    }
}

/// A message in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptMessage {
    role: String,
    content: String,
}

/// Tokens of the conversation up to the model's next reply.
fn conversation(args: &GenerateArgs, prompt: &str, chat: &ChatFormat) -> CliResult<Vec<u32>> {
    let mut messages: Vec<Message> = Vec::new();
    messages.extend(args.system.iter().map(|text| Message::of_text(Role::System, text)));
    if args.messages {
        let wrong = "the messages are malformed\nhint: write a list such as [{\"role\": \"user\", \"content\": \
                     \"Hello\"}]";
        let given: Vec<PromptMessage> = serde_json::from_str(prompt).user_context(wrong)?;
        for PromptMessage { role, content } in given {
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
        _ => Err(CliError::user(format!("unknown role `{name}`\nhint: use system, user, assistant or tool"))),
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

/// Prints tokens as they arrive, except the one that ends the reply.
async fn show(mut tokens: UnboundedReceiver<u32>, chat: &ChatFormat, printer: &Printer) -> CliResult<()> {
    let decode = |tokens: &[u32]| chat.decode(tokens).user_error();
    let mut text = Streamed::default();
    while let Some(token) = tokens.recv().await {
        if !chat.stop().contains(&token) {
            printer.piece(&text.push(token, decode)?);
        }
    }
    printer.piece(&text.rest(decode)?);
    Ok(())
}

/// Text of a token stream. A letter may span several tokens; it is shown when it is complete.
#[derive(Default)]
struct Streamed {
    tokens: Vec<u32>,
    /// Start of decoding: before the new tokens, because some tokenizers decode a first token differently.
    from: usize,
    /// Number of tokens shown.
    shown: usize,
}

impl Streamed {
    /// The complete text that a token adds.
    fn push<E>(&mut self, token: u32, decode: impl Fn(&[u32]) -> Result<String, E>) -> Result<String, E> {
        self.tokens.push(token);
        self.new_text(|text| !text.ends_with(char::REPLACEMENT_CHARACTER), decode)
    }

    /// The remaining text at the end, complete or not.
    fn rest<E>(&mut self, decode: impl Fn(&[u32]) -> Result<String, E>) -> Result<String, E> {
        self.new_text(|_| true, decode)
    }

    fn new_text<E>(
        &mut self,
        is_complete: impl Fn(&str) -> bool,
        decode: impl Fn(&[u32]) -> Result<String, E>,
    ) -> Result<String, E> {
        let before = decode(&self.tokens[self.from..self.shown])?;
        let now = decode(&self.tokens[self.from..])?;
        let new = now.strip_prefix(before.as_str()).filter(|_| is_complete(&now)).map(str::to_owned);
        if new.is_some() {
            (self.from, self.shown) = (self.shown, self.tokens.len());
        }
        Ok(new.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn bytes(tokens: &[u32]) -> Result<String, Infallible> {
        let bytes: Vec<u8> = tokens.iter().map(|token| *token as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn push(streamed: &mut Streamed, byte: u8) -> String {
        streamed.push(u32::from(byte), bytes).expect("decodes")
    }

    fn rest(streamed: &mut Streamed) -> String {
        streamed.rest(bytes).expect("decodes")
    }

    #[test]
    fn letters_of_several_tokens_are_shown_when_complete() {
        for text in ["plain", "ä漢🙂, then 字", "🙂🙂"] {
            let mut streamed = Streamed::default();
            let shown: Vec<String> = text.bytes().map(|byte| push(&mut streamed, byte)).collect();
            assert_eq!(shown.concat() + &rest(&mut streamed), text);
            assert!(shown.iter().all(|piece| !piece.contains(char::REPLACEMENT_CHARACTER)));
        }
        // An incomplete letter is shown at the end, or with the text behind it.
        let mut streamed = Streamed::default();
        assert_eq!(push(&mut streamed, 0xe6), "");
        assert_eq!(rest(&mut streamed), "\u{fffd}");
        let mut streamed = Streamed::default();
        assert_eq!([0xff, 0x41].map(|byte| push(&mut streamed, byte)), ["", "\u{fffd}A"]);
    }

    #[test]
    fn tokens_that_cannot_be_decoded_are_an_error() {
        let broken = |tokens: &[u32]| if tokens.is_empty() { Ok(String::new()) } else { Err("unknown token") };
        assert_eq!(Streamed::default().push(7, broken), Err("unknown token"));
        let mut streamed = Streamed { tokens: vec![7], ..Streamed::default() };
        assert_eq!(streamed.rest(broken), Err("unknown token"));
    }
}
