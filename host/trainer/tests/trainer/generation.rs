//! Generation: recorded numbers equal those of the model, whatever the batch; deterministic settings fix the tokens.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{conversation, converse, near, noise, request, score, segment, smallest, written};
use futures::future::join_all;
use gymkhana_policy::{Policy, PolicyError, Sampling, Stop, StopCondition};
use gymkhana_record::{Sampled, Seed};
use gymkhana_trainer::{SftSettings, TinyModel, Trainer, TrainerSettings};

fn trainer(settings: &TrainerSettings) -> Trainer {
    Trainer::create(&smallest(), settings).expect("a model")
}

fn deterministic(slots: usize) -> Trainer {
    trainer(&TrainerSettings {
        max_concurrent_sequences: slots,
        deterministic: true,
        seed: Seed(9),
        ..TrainerSettings::default()
    })
}

/// Starts conversations in the given order, with a delay between them.
async fn in_order(trainer: &Trainer, places: &[u32]) -> Vec<(u32, Vec<Sampled>)> {
    let started = places.iter().enumerate().map(|(index, place)| async move {
        tokio::time::sleep(Duration::from_millis(index as u64 % 4)).await;
        let turns = converse(trainer, *place).await;
        (*place, turns.into_iter().map(|(_, reply)| reply).collect())
    });
    let mut finished: Vec<(u32, Vec<Sampled>)> = join_all(started).await;
    finished.sort_by_key(|(place, _)| *place);
    finished
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deterministic_tokens_depend_only_on_the_request() {
    let mut order: Vec<u32> = (0..8).collect();
    let expected = in_order(&deterministic(8), &order).await;
    for round in 0..4 {
        Seed(round).stream().shuffle(&mut order);
        // Floats are compared exactly, bit by bit.
        assert_eq!(in_order(&deterministic(8), &order).await, expected);
    }
    for (place, replies) in &expected {
        let alone = in_order(&deterministic(8), &[*place]).await;
        assert_eq!(alone[0].1, *replies, "conversation {place} alone");
    }
}

/// Neighbours of all kinds: with the same prompt or a prefix of it, with other sampling settings, starting and ending
/// at random times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_neighbours_change_no_bit() {
    let prompt = noise(Seed(20), 45);
    let cut = Sampling { top_k: 40, top_p: 0.9, min_p: 0.01, ..Sampling::at(0.8) };
    let ours = |place: u32| {
        let mut request = request(place, &prompt, 25, Seed(21).child(place));
        request.sampling = [Sampling::at(1.0), cut][place as usize % 2];
        request
    };
    let mut expected = Vec::new();
    for place in 0..4 {
        expected.push(deterministic(8).generate(ours(place)).await.expect("a reply"));
    }
    for round in 0..6 {
        let trainer = deterministic(8);
        let neighbour = |place: u32| {
            let (mut stream, trainer, prompt) = (Seed(22).child(round).child(place).stream(), &trainer, &prompt);
            async move {
                for turn in 0..3 {
                    tokio::time::sleep(Duration::from_micros(stream.below(3000))).await;
                    let tokens = match stream.below(3) {
                        0 => prompt.clone(),
                        1 => prompt[..=stream.below(40) as usize].to_vec(),
                        _ => noise(Seed(stream.below(1 << 40)), 1 + stream.below(60) as usize),
                    };
                    let mut request = request(place, &tokens, 1 + stream.below(20) as usize, Seed(turn));
                    request.sampling = [Sampling::GREEDY, Sampling::at(1.5), cut][stream.below(3) as usize];
                    trainer.generate(request).await.expect("a reply");
                    trainer.release(conversation(place));
                }
            }
        };
        let ours = join_all((0..4).map(|place| trainer.generate(ours(place))));
        let (found, _) = futures::future::join(ours, join_all((4..8).map(neighbour))).await;
        let found: Vec<_> = found.into_iter().map(|reply| reply.expect("a reply")).collect();
        assert_eq!(found, expected, "round {round}");
    }
}

#[tokio::test]
async fn tokens_depend_on_the_seed() {
    let trainer = deterministic(2);
    let tokens = noise(Seed(1), 10);
    let mut replies = Vec::new();
    for seed in [5, 5, 6] {
        replies.push(trainer.generate(request(0, &tokens, 20, Seed(seed))).await.expect("a reply").sampled);
        trainer.release(conversation(0));
    }
    assert_eq!(replies[0], replies[1]);
    assert_ne!(replies[0].tokens, replies[2].tokens);
}

#[tokio::test]
async fn a_deterministic_slot_is_taken_only_after_its_release() {
    let trainer = deterministic(2);
    let tokens = noise(Seed(1), 5);
    trainer.generate(request(0, &tokens, 3, Seed(1))).await.expect("a reply");
    let waits = tokio::time::timeout(Duration::from_millis(200), trainer.generate(request(2, &tokens, 3, Seed(1))));
    assert!(waits.await.is_err(), "place 2 of 2 slots is place 0's");
    let later = trainer.generate(request(2, &tokens, 3, Seed(1)));
    trainer.release(conversation(0));
    assert_eq!(later.await.expect("a reply").sampled.tokens.len(), 3);
}

/// Fewer slots than conversations, so that caches are evicted and recomputed; prompts of many lengths.
#[tokio::test]
async fn recorded_numbers_equal_those_of_the_model() {
    for settings in [
        TrainerSettings { max_concurrent_sequences: 5, ..TrainerSettings::default() },
        TrainerSettings { max_concurrent_sequences: 24, ..TrainerSettings::default() },
        TrainerSettings { max_concurrent_sequences: 24, deterministic: true, ..TrainerSettings::default() },
    ] {
        let trainer = trainer(&settings);
        let conversations = join_all((0..24).map(|place| converse(&trainer, place))).await;
        for (given, reply) in conversations.into_iter().flatten() {
            let scored = score(&trainer, &given, &reply.tokens).await;
            near(&reply.log_probs, &scored.log_probs, 1e-5);
            near(&reply.entropies, &scored.entropies, 1e-4);
        }
    }
}

/// A group's prompt is computed once and copied.
#[tokio::test]
async fn groups_share_their_prompt_but_not_their_replies() {
    let trainer = trainer(&TrainerSettings { max_concurrent_sequences: 16, ..TrainerSettings::default() });
    let prompt = noise(Seed(2), 60);
    let replies = (0..16).map(|place| trainer.generate(request(place, &prompt, 12, Seed(7).child(place))));
    let replies: Vec<Sampled> =
        join_all(replies).await.into_iter().map(|reply| reply.expect("a reply").sampled).collect();
    for reply in &replies {
        near(&reply.log_probs, &score(&trainer, &prompt, &reply.tokens).await.log_probs, 1e-5);
    }
    assert!(replies.iter().any(|reply| reply.tokens != replies[0].tokens));
}

#[tokio::test]
async fn a_conversation_with_a_changed_history_is_recomputed() {
    let trainer = trainer(&TrainerSettings::default());
    trainer.generate(request(0, &noise(Seed(1), 30), 5, Seed(1))).await.expect("a reply");
    let other = noise(Seed(2), 30);
    let reply = trainer.generate(request(0, &other, 5, Seed(1))).await.expect("a reply").sampled;
    near(&reply.log_probs, &score(&trainer, &other, &reply.tokens).await.log_probs, 1e-5);
}

#[tokio::test]
async fn new_weights_during_a_reply_sample_its_later_tokens() {
    let tiny = TinyModel { context: 600, ..smallest() };
    let trainer = Trainer::create(&tiny, &TrainerSettings::default()).expect("a model");
    let given = noise(Seed(3), 20);
    let mut long = request(0, &given, 560, Seed(3));
    long.stop = Arc::from([]);
    let demonstration = [segment(&given, &written(&[65, 66, 258]))];
    let settings = SftSettings::default();
    let training = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        trainer.sft_step(&demonstration, &settings).await.expect("a step")
    };
    let (reply, _) = futures::future::join(trainer.generate(long), training).await;
    let reply = reply.expect("a reply").sampled;
    assert!(reply.versions.is_sorted(), "{:?}", reply.versions);
    assert_eq!(trainer.weight_version(), 1);
    let scored = score(&trainer, &given, &reply.tokens).await;
    assert_eq!(scored.versions, vec![1; 560]);
    let first = reply.versions.partition_point(|version| *version == 0);
    near(&reply.log_probs[first..], &scored.log_probs[first..], 2e-5);
}

#[tokio::test]
async fn replies_end_at_stop_tokens_and_at_the_context() {
    let trainer = trainer(&TrainerSettings { context: Some(40), ..TrainerSettings::default() });
    assert_eq!(trainer.context(), 40);
    let given = noise(Seed(4), 30);
    let mut asked = request(0, &given, 100, Seed(4));
    asked.sampling = Sampling::GREEDY;
    asked.stop = Arc::from([]);
    let reply = trainer.generate(asked.clone()).await.expect("a reply");
    assert_eq!((reply.sampled.tokens.len(), reply.stop), (10, Stop::Length));
    let third = reply.sampled.tokens[2];
    asked.stop = Arc::from([third]);
    let stopped = trainer.generate(asked).await.expect("a reply");
    let first = reply.sampled.tokens.iter().position(|token| *token == third).expect("it is there");
    assert_eq!(stopped.sampled.tokens, reply.sampled.tokens[..=first]);
    assert_eq!(stopped.stop, Stop::Token);
}

/// Stop texts over a vocabulary whose first 256 tokens are the bytes, like the tiny model's.
#[derive(Debug)]
struct ByteTexts(Vec<String>);

impl StopCondition for ByteTexts {
    fn texts(&self) -> &[String] {
        &self.0
    }

    fn is_met(&self, sampled: &[u32]) -> bool {
        let bytes: Vec<u8> = sampled.iter().map(|token| u8::try_from(*token).unwrap_or(0)).collect();
        self.0.iter().any(|text| bytes.ends_with(text.as_bytes()))
    }
}

/// A stop text may span several tokens; the reply ends with the token that completes it.
#[tokio::test]
async fn replies_end_with_the_token_that_completes_a_text() {
    let trainer = trainer(&TrainerSettings::default());
    let mut asked = request(0, &noise(Seed(4), 30), 90, Seed(4));
    asked.stop = Arc::from([]);
    let whole = trainer.generate(asked.clone()).await.expect("a reply").sampled.tokens;
    // First index in the reply of two printable neighbours.
    let printable = |tokens: &[u32]| tokens.iter().all(|token| (33..127).contains(token));
    let place = whole.windows(2).position(printable).expect("two printable bytes in a row");
    let wanted: String = whole[place..place + 2].iter().map(|token| char::from(*token as u8)).collect();
    for (texts, end, stop) in [
        (vec![wanted.clone()], place + 2, Stop::Text),
        (vec!["never generated".to_owned(), wanted.clone()], place + 2, Stop::Text),
        (vec!["never generated".to_owned()], whole.len(), Stop::Length),
    ] {
        asked.stop_texts = Some(Arc::new(ByteTexts(texts.clone())));
        let reply = trainer.generate(asked.clone()).await.expect("a reply");
        assert_eq!((reply.sampled.tokens.as_slice(), reply.stop), (&whole[..end], stop), "{texts:?}");
    }
}

#[tokio::test]
async fn requests_that_do_not_fit_are_refused() {
    let trainer = trainer(&TrainerSettings { context: Some(40), ..TrainerSettings::default() });
    let full = trainer.generate(request(0, &noise(Seed(1), 40), 1, Seed(1))).await;
    assert_eq!(full, Err(PolicyError::ContextFull { tokens: 40, context: 40 }));
    let foreign = trainer.generate(request(0, &[1, 264], 1, Seed(1))).await;
    assert_eq!(foreign, Err(PolicyError::UnknownToken { token: 264, vocabulary: 264 }));
    assert!(trainer.generate(request(0, &noise(Seed(1), 39), 5, Seed(1))).await.is_ok());
}

/// One slot and one permit of the queue: a cancelled request must release both.
#[tokio::test]
async fn a_cancelled_request_releases_its_slot_and_permit() {
    let tiny = TinyModel { context: 4096, ..smallest() };
    let settings = TrainerSettings { max_concurrent_sequences: 1, queue: 1, ..TrainerSettings::default() };
    let trainer = Trainer::create(&tiny, &settings).expect("a model");
    let mut endless = request(0, &[1, 2, 3], 4000, Seed(1));
    endless.stop = Arc::from([]);
    assert!(tokio::time::timeout(Duration::from_millis(20), trainer.generate(endless)).await.is_err());
    let next = trainer.generate(request(1, &[4, 5], 3, Seed(1)));
    let reply = tokio::time::timeout(Duration::from_secs(2), next).await.expect("soon, not after 4000 tokens");
    assert!(reply.is_ok());
}
