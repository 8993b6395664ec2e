//! The computing thread ends before the last handle is dropped. The test has its own file because it inspects all
//! threads of the process.

mod common;

use std::fs;

use common::{noise, request};
use futures::future::{Either, select};
use gymkhana_policy::Policy;
use gymkhana_record::Seed;
use gymkhana_trainer::{TinyModel, Trainer, TrainerSettings};

/// Whether a thread of this process has the computing thread's name.
fn computes() -> bool {
    let threads = fs::read_dir("/proc/self/task").expect("Linux lists threads");
    threads.flatten().any(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        name.trim() == "torch"
    })
}

/// Starts a reply of 2000 tokens and cancels it after its first token.
async fn interrupt(trainer: &Trainer, place: u32) {
    let (sink, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let mut asked = request(place, &noise(Seed(1), 2000), 2000, Seed(2));
    (asked.token_sink, asked.stop) = (Some(sink), std::sync::Arc::from([]));
    let first = Box::pin(tokens.recv());
    match select(trainer.generate(asked), first).await {
        Either::Right((Some(_), _)) => {}
        _ => panic!("the first token comes before the whole reply"),
    };
}

#[tokio::test]
async fn the_last_handle_waits_for_the_thread_during_generation() {
    let busy = TinyModel { layers: 4, width: 128, heads: 4, kv_heads: 4, mlp: 256, context: 4096 };
    let trainer = Trainer::create(&busy, &TrainerSettings::default()).expect("a model");
    let copy = trainer.clone();
    interrupt(&copy, 0).await;
    drop(copy);
    assert!(computes(), "one handle is left");
    interrupt(&trainer, 1).await;
    drop(trainer);
    assert!(!computes(), "the process could end while libtorch computes");
}
