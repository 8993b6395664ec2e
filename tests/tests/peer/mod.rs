//! A server on loopback with vLLM's or SGLang's protocol, backed by a real model, with selectable faults.
//!
//! It is strict: it refuses requests that differ from the recordings, and new weights while requests may run.
#![allow(dead_code, reason = "each test file uses a part of it")]

mod completion;
mod http;
mod old_head;
pub mod shape;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gymkhana_chat::{ChatFiles, ChatFormat};
use gymkhana_policy::{Conversation, GenerateRequest, Generated, Policy, Sampling, ScoreRequest, Stop};
use gymkhana_policy_server::Protocol;
use gymkhana_record::Seed;
use gymkhana_trainer::{TinyModel, Trainer, TrainerSettings};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use self::http::{request, write};

/// Name of the server's model.
pub const MODEL: &str = "tiny";

/// Fault of one answer for tokens.
#[derive(Clone, Copy)]
pub enum Mischief {
    /// Never answers.
    Hangs,
    /// Closes the connection instead of answering.
    Closes,
    /// Closes the connection in the middle of the answer.
    BreaksOff,
    /// Answers with a proxy's page.
    Garbage,
    /// Answers with a status and a `retry-after` header.
    Status(u16, &'static str),
    /// Changes the answer.
    Edits(fn(&mut Value)),
}

/// State shared by the threads.
struct Shared {
    protocol: Protocol,
    /// Folder of the first model.
    first: PathBuf,
    /// Folder that the list of models names.
    root: Mutex<String>,
    /// Whether updates leave the output layer of the first model in place.
    keeps_head: Mutex<bool>,
    /// Whether updates fail.
    refuses_weights: Mutex<bool>,
    /// All loaded models; the last one generates.
    loaded: Mutex<Vec<Trainer>>,
    version: Mutex<String>,
    paused: Mutex<bool>,
    mischief: Mutex<VecDeque<Mischief>>,
    /// Fault of every answer for tokens.
    always: Mutex<Option<Mischief>>,
    requests: Mutex<Vec<(String, Value)>>,
    answers: Mutex<Vec<Value>>,
    /// Header `authorization` of the last request.
    key: Mutex<Option<String>>,
    /// Lock held during generation, because only one place is used.
    making: tokio::sync::Mutex<()>,
}

/// The server. It ends with the process.
pub struct Peer {
    shared: Arc<Shared>,
    address: String,
}

/// Settings with which equal requests give equal tokens.
pub fn settings() -> TrainerSettings {
    TrainerSettings {
        max_concurrent_sequences: 4,
        deterministic: true,
        context: Some(512),
        ..TrainerSettings::default()
    }
}

/// Writes a tiny model with random weights of this seed.
pub fn write_model(seed: u64, folder: &Path) {
    let tiny = TinyModel { layers: 1, width: 16, heads: 2, kv_heads: 1, mlp: 32, context: 512 };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let trainer = Trainer::create(&tiny, &TrainerSettings { seed: Seed(seed), ..TrainerSettings::default() })
            .expect("a model");
        trainer.save(folder, &Value::Null).await.expect("saved");
    });
}

/// Chat format of a model.
pub fn chat(trainer: &Trainer) -> ChatFormat {
    let text = |wanted: &str| trainer.files().iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.to_owned());
    let files = ChatFiles {
        tokenizer: text("tokenizer.json").expect("a tokenizer"),
        config: text("tokenizer_config.json").unwrap_or_else(|| "{}".to_owned()),
        template: text("chat_template.jinja"),
        ends: vec![],
    };
    ChatFormat::new(&files).expect("a chat format")
}

impl Peer {
    /// Serves the model in a folder.
    pub fn start(protocol: Protocol, folder: &Path) -> Self {
        let trainer = Trainer::open(folder, &settings()).expect("a model");
        let shared = Arc::new(Shared {
            protocol,
            first: folder.to_owned(),
            root: Mutex::new(MODEL.to_owned()),
            keeps_head: Mutex::default(),
            refuses_weights: Mutex::default(),
            loaded: Mutex::new(vec![trainer]),
            version: Mutex::new("default".to_owned()),
            paused: Mutex::new(false),
            mischief: Mutex::default(),
            always: Mutex::default(),
            requests: Mutex::default(),
            answers: Mutex::default(),
            key: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        });
        let (sender, receiver) = std::sync::mpsc::channel();
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                sender.send(listener.local_addr().expect("an address").to_string()).expect("it is awaited");
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(Arc::clone(&served), stream));
                }
            });
        });
        Self { shared, address: receiver.recv().expect("it listens") }
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Applies these faults to the next answers for tokens.
    pub fn misbehave(&self, mischief: &[Mischief]) {
        self.shared.mischief.lock().expect("unpoisoned").extend(mischief);
    }

    /// Applies this fault to all answers for tokens; `None` ends it.
    pub fn always(&self, mischief: Option<Mischief>) {
        *self.shared.always.lock().expect("unpoisoned") = mischief;
    }

    /// Requests since the last call of this method, as path and body.
    pub fn requests(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.shared.requests.lock().expect("unpoisoned"))
    }

    /// Answers since the last call of this method, before faults.
    pub fn answers(&self) -> Vec<Value> {
        std::mem::take(&mut self.shared.answers.lock().expect("unpoisoned"))
    }

    /// Header `authorization` of the last request.
    pub fn key(&self) -> Option<String> {
        self.shared.key.lock().expect("unpoisoned").clone()
    }

    /// All loaded models, in order.
    pub fn loaded(&self) -> Vec<Trainer> {
        self.shared.loaded.lock().expect("unpoisoned").clone()
    }

    /// Answers this number of further requests for tokens, then none.
    pub fn die_after(&self, answers: usize) {
        self.misbehave(&vec![Mischief::Edits(|_| {}); answers]);
        self.always(Some(Mischief::Closes));
    }

    /// Answers requests again.
    pub fn revive(&self) {
        self.always(None);
    }

    /// Reports this folder as that of the served model.
    pub fn name_root(&self, root: &str) {
        *self.shared.root.lock().expect("unpoisoned") = root.to_owned();
    }

    /// Keeps the output layer of the first model in every update, as vLLM does with tied embeddings.
    pub fn keep_head(&self, keeps: bool) {
        *self.shared.keeps_head.lock().expect("unpoisoned") = keeps;
    }

    /// Refuses updates, like a server that cannot read their folder.
    pub fn refuse_weights(&self, refuses: bool) {
        *self.shared.refuses_weights.lock().expect("unpoisoned") = refuses;
    }

    /// Forgets the loaded weights and a pause, like a restarted server.
    pub fn restart(&self) {
        *self.shared.paused.lock().expect("unpoisoned") = false;
        self.shared.loaded.lock().expect("unpoisoned").truncate(1);
        *self.shared.version.lock().expect("unpoisoned") = "default".to_owned();
    }
}

async fn serve(shared: Arc<Shared>, mut stream: TcpStream) {
    let Some((path, body, key)) = request(&mut stream).await else { return };
    *shared.key.lock().expect("unpoisoned") = key;
    shared.requests.lock().expect("unpoisoned").push((path.clone(), body.clone()));
    let (status, answer) = shared.answer(&path, &body).await.unwrap_or_else(|why| (400, json!({"error": why})));
    shared.answers.lock().expect("unpoisoned").push(answer.clone());
    let is_for_tokens = status == 200 && matches!(path.as_str(), "/v1/completions" | "/generate");
    let mischief = if is_for_tokens { shared.next_mischief() } else { None };
    let mut answer = answer;
    match mischief {
        None => {}
        Some(Mischief::Hangs) => std::future::pending().await,
        Some(Mischief::Closes) => return,
        Some(Mischief::Garbage) => return write(&mut stream, 200, "", "<html>gateway</html>", None).await,
        Some(Mischief::BreaksOff) => return write(&mut stream, 200, "", &answer.to_string(), Some(20)).await,
        Some(Mischief::Status(status, after)) => {
            let header = format!("retry-after: {after}\r\n");
            return write(&mut stream, status, &header, "{\"error\": \"busy\"}", None).await;
        }
        Some(Mischief::Edits(edit)) => edit(&mut answer),
    }
    write(&mut stream, status, "", &answer.to_string(), None).await;
}

type Answered = Result<(u16, Value), String>;

impl Shared {
    fn next_mischief(&self) -> Option<Mischief> {
        let next = self.mischief.lock().expect("unpoisoned").pop_front();
        next.or(*self.always.lock().expect("unpoisoned"))
    }

    fn trainer(&self) -> Trainer {
        self.loaded.lock().expect("unpoisoned").last().expect("a model").clone()
    }

    async fn answer(&self, path: &str, body: &Value) -> Answered {
        match (self.protocol, path) {
            (_, "/v1/models") => Ok((
                200,
                json!({"object": "list", "data": [{"id": MODEL, "object": "model",
                "created": 1, "owned_by": "test", "root": *self.root.lock().expect("unpoisoned"), "parent": null, "max_model_len": 512}]}),
            )),
            (Protocol::Vllm, "/v1/completions") if body.get("prompt_logprobs").is_some() => self.vllm_score(body).await,
            (Protocol::Vllm, "/v1/completions") => self.vllm_generate(body).await,
            (Protocol::Vllm, "/pause?mode=wait") => {
                *self.paused.lock().expect("unpoisoned") = true;
                Ok((200, json!({"status": "paused"})))
            }
            (Protocol::Vllm, "/resume") => {
                *self.paused.lock().expect("unpoisoned") = false;
                Ok((200, json!({"status": "resumed"})))
            }
            (Protocol::Vllm, "/collective_rpc") => {
                if !*self.paused.lock().expect("unpoisoned") || body["method"] != "reload_weights" {
                    return Err("weights are reloaded in a pause".to_owned());
                }
                self.load(body["kwargs"]["weights_path"].as_str().ok_or("no path")?)?;
                Ok((200, json!({"results": [null]})))
            }
            (Protocol::Sglang, "/generate") if body.get("logprob_start_len").is_some() => self.sglang_score(body).await,
            (Protocol::Sglang, "/generate") => self.sglang_generate(body).await,
            (Protocol::Sglang, "/update_weights_from_disk") => {
                if body["flush_cache"] != true {
                    return Err("old keys and values would stay".to_owned());
                }
                let loaded = self.load(body["model_path"].as_str().ok_or("no path")?);
                if loaded.is_ok() {
                    *self.version.lock().expect("unpoisoned") =
                        body["weight_version"].as_str().unwrap_or("").to_owned();
                }
                let message =
                    loaded.as_ref().err().cloned().unwrap_or_else(|| "Succeeded to update model weights.".to_owned());
                Ok((200, json!({"success": loaded.is_ok(), "message": message, "num_paused_requests": 0})))
            }
            (Protocol::Openai, "/v1/completions") => self.text(body).await,
            _ => Ok((404, json!({"detail": "Not Found"}))),
        }
    }

    fn load(&self, folder: &str) -> Result<(), String> {
        if !Path::new(folder).is_absolute() {
            return Err(format!("`{folder}` is not a folder on this machine"));
        }
        if *self.refuses_weights.lock().expect("unpoisoned") {
            return Err(format!("`{folder}` cannot be read"));
        }
        let keeps_head = *self.keeps_head.lock().expect("unpoisoned");
        let mixed = keeps_head.then(|| old_head::mixed(&self.first, Path::new(folder))).transpose();
        let mixed = mixed.map_err(|error| error.to_string())?;
        let folder = mixed.as_ref().map_or(Path::new(folder), tempfile::TempDir::path);
        let trainer = Trainer::open(folder, &settings()).map_err(|error| error.to_string())?;
        self.loaded.lock().expect("unpoisoned").push(trainer);
        Ok(())
    }

    async fn generate(&self, tokens: Vec<u32>, asked: &Value, names: [&str; 2]) -> Result<Generated, String> {
        let number = |name: &str| asked[name].as_f64().ok_or(format!("no {name}"));
        let sampling = Sampling {
            temperature: number("temperature")? as f32,
            top_p: number("top_p")? as f32,
            top_k: number("top_k").map_or(0, |top_k| top_k.max(0.0) as u32),
            min_p: number("min_p").unwrap_or(0.0) as f32,
        };
        let [most, seed] = names;
        let seed = asked[seed].as_i64().ok_or("no seed")?;
        let stop: Vec<u32> = asked["stop_token_ids"].as_array().map_or(vec![], |ids| numbers(ids));
        let request = GenerateRequest {
            conversation: Conversation { id: u64::MAX, place: 0 },
            tokens: tokens.into(),
            max_tokens: asked[most].as_u64().ok_or("no length")? as usize,
            stop: stop.into(),
            stop_texts: None,
            sampling,
            seed: Seed(seed as u64),
            token_sink: None,
        };
        let _alone = self.making.lock().await;
        let trainer = self.trainer();
        let generated = trainer.generate(request).await.map_err(|error| error.to_string());
        trainer.release(Conversation { id: u64::MAX, place: 0 });
        generated
    }

    async fn vllm_generate(&self, body: &Value) -> Answered {
        if *self.paused.lock().expect("unpoisoned") {
            return Ok((503, json!({"error": "paused"})));
        }
        let known = [
            "model",
            "prompt",
            "max_tokens",
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "seed",
            "stop_token_ids",
            "ignore_eos",
            "skip_special_tokens",
            "logprobs",
            "return_token_ids",
            "return_tokens_as_token_ids",
            "stop",
        ];
        only(body, &known)?;
        let prompt = numbers(body["prompt"].as_array().ok_or("no prompt")?);
        let Generated { sampled, stop } = self.generate(prompt.clone(), body, ["max_tokens", "seed"]).await?;
        let written: Vec<String> = sampled.tokens.iter().map(|token| format!("token_id:{token}")).collect();
        let top: Vec<Value> =
            written.iter().zip(&sampled.log_probs).map(|(token, log_prob)| json!({token.as_str(): log_prob})).collect();
        let stop_reason = if stop == Stop::Token { json!(sampled.tokens.last()) } else { Value::Null };
        let length = sampled.tokens.len();
        let choice = json!({
            "index": 0, "text": "", "finish_reason": if stop == Stop::Token { "stop" } else { "length" },
            "logprobs": {"text_offset": vec![0; length], "token_logprobs": sampled.log_probs, "tokens": written,
                "top_logprobs": top},
            "stop_reason": stop_reason, "prompt_logprobs": null, "prompt_token_ids": prompt,
            "token_ids": sampled.tokens, "routed_experts": null,
        });
        Ok((200, completion::vllm(&choice, prompt.len(), length)))
    }

    async fn vllm_score(&self, body: &Value) -> Answered {
        only(body, &["model", "prompt", "max_tokens", "temperature", "prompt_logprobs"])?;
        let prompt = numbers(body["prompt"].as_array().ok_or("no prompt")?);
        let scored = self.score(&prompt, 1).await?;
        let place = |(token, log_prob): (&u32, &f32)| json!({token.to_string(): {"logprob": log_prob, "rank": 1, "decoded_token": ""}});
        let places: Vec<Value> = [Value::Null].into_iter().chain(prompt[1..].iter().zip(&scored).map(place)).collect();
        let choice = json!({"index": 0, "text": "", "logprobs": null, "finish_reason": "length", "stop_reason": null,
            "prompt_logprobs": places, "prompt_token_ids": null, "token_ids": null, "routed_experts": null});
        Ok((200, completion::vllm(&choice, prompt.len(), 1)))
    }

    async fn sglang_generate(&self, body: &Value) -> Answered {
        only(body, &["input_ids", "sampling_params", "return_logprob", "stream"])?;
        let known = [
            "max_new_tokens",
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "sampling_seed",
            "stop_token_ids",
            "ignore_eos",
            "skip_special_tokens",
            "no_stop_trim",
            "stop",
        ];
        only(&body["sampling_params"], &known)?;
        let prompt = numbers(body["input_ids"].as_array().ok_or("no prompt")?);
        let names = ["max_new_tokens", "sampling_seed"];
        let Generated { sampled, stop } = self.generate(prompt.clone(), &body["sampling_params"], names).await?;
        let finish_reason = match stop {
            Stop::Token => json!({"type": "stop", "matched": sampled.tokens.last()}),
            _ => json!({"type": "length", "length": sampled.tokens.len()}),
        };
        let pairs: Vec<Value> =
            sampled.tokens.iter().zip(&sampled.log_probs).map(|(token, log)| json!([log, token, null])).collect();
        Ok((
            200,
            json!({"text": "", "output_ids": sampled.tokens, "meta_info": {
                "id": "1", "finish_reason": finish_reason, "prompt_tokens": prompt.len(), "completion_tokens": pairs.len(),
                "cached_tokens": 0, "weight_version": *self.version.lock().expect("unpoisoned"), "e2e_latency": 0.1,
                "input_token_logprobs": [], "output_token_logprobs": pairs,
            }}),
        ))
    }

    async fn sglang_score(&self, body: &Value) -> Answered {
        only(body, &["input_ids", "sampling_params", "return_logprob", "logprob_start_len", "stream"])?;
        let prompt = numbers(body["input_ids"].as_array().ok_or("no prompt")?);
        let start = body["logprob_start_len"].as_u64().ok_or("no start")? as usize;
        let scored = self.score(&prompt, start + 1).await?;
        let first = json!([null, prompt[start], null]);
        let rest = prompt[start + 1..].iter().zip(&scored).map(|(token, log)| json!([log, token, null]));
        let places: Vec<Value> = [first].into_iter().chain(rest).collect();
        Ok((
            200,
            json!({"text": "", "output_ids": [], "meta_info": {
                "id": "1", "finish_reason": {"type": "length", "length": 0}, "prompt_tokens": prompt.len(),
                "completion_tokens": 0, "cached_tokens": 0, "input_token_logprobs": places, "output_token_logprobs": [],
            }}),
        ))
    }

    /// Log-probabilities of the tokens after the first `given`, in nats.
    async fn score(&self, tokens: &[u32], given: usize) -> Result<Vec<f32>, String> {
        let request = ScoreRequest { prefix: tokens[..given].into(), continuation: tokens[given..].into() };
        Ok(self.trainer().score(request).await.map_err(|error| error.to_string())?.log_probs)
    }

    /// A text completion of OpenAI's API.
    async fn text(&self, body: &Value) -> Answered {
        only(body, &["model", "prompt", "max_tokens", "temperature", "top_p", "seed", "stop"])?;
        let chat = chat(&self.trainer());
        let prompt = chat.encode_raw(body["prompt"].as_str().ok_or("no prompt")?).map_err(|error| error.to_string())?;
        let mut asked = body.clone();
        asked["stop_token_ids"] = json!(chat.stop());
        let Generated { sampled, stop } = self.generate(prompt, &asked, ["max_tokens", "seed"]).await?;
        let text = chat.decode_reply(&sampled.tokens).map_err(|error| error.to_string())?;
        let reason = if stop == Stop::Token { "stop" } else { "length" };
        let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": reason});
        Ok((
            200,
            json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL, "choices": [choice]}),
        ))
    }
}

fn numbers(values: &[Value]) -> Vec<u32> {
    values.iter().map(|value| value.as_u64().expect("a token") as u32).collect()
}

/// Refuses keys that are not in the recordings.
fn only(body: &Value, known: &[&str]) -> Result<(), String> {
    let keys = body.as_object().ok_or("no object")?;
    match keys.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("`{key}` is not known")),
        None => Ok(()),
    }
}
