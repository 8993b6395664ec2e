//! The thread that computes ends before the last handle is gone. Alone in its file: it looks at all threads of the
//! process.

mod common;

use std::fs;
use std::time::Duration;

use common::{noise, request};
use gymkhana_policy::Policy;
use gymkhana_record::Seed;
use gymkhana_trainer::{Settings, TinyModel, Trainer};

/// Whether a thread of this process has the name of the one that computes.
fn computes() -> bool {
    let threads = fs::read_dir("/proc/self/task").expect("Linux lists threads");
    threads.flatten().any(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        name.trim() == "torch"
    })
}

#[tokio::test]
async fn the_last_handle_waits_for_the_thread_in_the_midst_of_generation() {
    let busy = TinyModel { layers: 4, width: 128, heads: 4, kv_heads: 4, mlp: 256, context: 4096 };
    let trainer = Trainer::create(&busy, &Settings::default()).expect("a model");
    let copy = trainer.clone();
    let tokens = noise(Seed(1), 2000);
    let reply = copy.generate(request(0, &tokens, 2000, Seed(2)));
    tokio::time::timeout(Duration::from_millis(100), reply).await.expect_err("2000 tokens take longer");
    drop(copy);
    assert!(computes(), "one handle is left");
    // A reply that somebody waits for; dropped with the last handle, while it is computed.
    let reply = trainer.generate(request(1, &tokens, 2000, Seed(2)));
    tokio::time::timeout(Duration::from_millis(100), reply).await.expect_err("2000 tokens take longer");
    drop(trainer);
    assert!(!computes(), "the process could end while libtorch computes");
}
