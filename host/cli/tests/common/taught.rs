//! A model trained on a few replies.

use std::path::Path;

use gymkhana_chat::{ChatFiles, ChatFormat, Extension, Message, Rendered, ReplyPiece, Role};
use gymkhana_record::{Sampled, Seed, Segment};
use gymkhana_trainer::{Optimizer, SftSettings, TinyModel, Trainer, TrainerSettings};

/// First observation of the hostile environment.
const PROMPT: &str = "Say yes.";

/// Writes a model that gives one of these replies to the hostile environment, each with about equal probability.
pub async fn teach(replies: &[&str], folder: &Path) {
    let tiny = TinyModel { layers: 2, width: 32, heads: 2, kv_heads: 2, mlp: 64, context: 192 };
    let trainer =
        Trainer::create(&tiny, &TrainerSettings { seed: Seed(5), ..TrainerSettings::default() }).expect("a tiny model");
    let chat = chat_of(&trainer);
    let prompt = Message::of_text(Role::User, PROMPT);
    let extended = chat.extend(&Rendered::default(), &[prompt], &[], false).expect("a prompt in tokens");
    let (Extension::Restart(prompt), _) = extended else { panic!("a new conversation begins anew") };
    let demonstrations: Vec<Segment> = replies
        .iter()
        .map(|reply| {
            let tokens = chat.encode_reply(&[ReplyPiece::Frame(reply)]).expect("a reply in tokens");
            let zeros = vec![0.0; tokens.len()];
            let versions = vec![0; tokens.len()];
            let mut segment = Segment::default();
            segment.append_given(&prompt, 0);
            let reply = Sampled { tokens, log_probs: zeros.clone(), entropies: zeros, versions };
            segment.append_sampled(&reply, 0).expect("columns of one length");
            segment
        })
        .collect();
    let optimizer = Optimizer { learning_rate: 1e-2, ..Optimizer::default() };
    let settings = SftSettings { optimizer, ..SftSettings::default() };
    for _ in 0..150 {
        trainer.sft_step(&demonstrations, &settings).await.expect("a training step");
    }
    trainer.save(folder, &serde_json::Value::Null).await.expect("a checkpoint");
}

fn chat_of(trainer: &Trainer) -> ChatFormat {
    let text = |wanted: &str| {
        let found = trainer.files().iter().find(|(name, _)| *name == wanted);
        found.map(|(_, text)| text.to_owned()).expect("a tiny model has this file")
    };
    let files = ChatFiles {
        tokenizer: text("tokenizer.json"),
        config: text("tokenizer_config.json"),
        template: Some(text("chat_template.jinja")),
        ends: vec![],
    };
    ChatFormat::new(&files).expect("the tiny model's own files are sound")
}
