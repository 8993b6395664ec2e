//! Sharing of prompts within a group, also bit by bit in deterministic engines.

use std::sync::Arc;

use gymkhana_policy::{GenerateRequest, Generated, PolicyError};
use gymkhana_record::Seed;
use tokio::sync::{Semaphore, oneshot};

use super::*;
use crate::TinyModel;

type Answer = oneshot::Receiver<Result<Generated, PolicyError>>;

fn model() -> Model {
    let tiny = TinyModel { layers: 2, width: 32, heads: 4, kv_heads: 2, mlp: 48, context: 128 };
    let model = Model::zeros(crate::tiny::config(&tiny).expect("sizes"), 128, Device::Cpu).expect("a model");
    model.randomise(Seed(1)).expect("weights");
    model
}

fn engine(model: &Model) -> Engine {
    let settings = TrainerSettings { max_concurrent_sequences: 4, deterministic: true, ..TrainerSettings::default() };
    Engine::new(model, &settings, 128, 0).expect("an engine")
}

/// Queues a request; the answer arrives once the engine has taken enough steps.
fn submit(engine: &mut Engine, place: u32, tokens: &[u32]) -> Answer {
    submit_as(engine, place, tokens, |_| ())
}

fn submit_as(engine: &mut Engine, place: u32, tokens: &[u32], change: impl FnOnce(&mut GenerateRequest)) -> Answer {
    let (reply, answer) = oneshot::channel();
    let mut request = GenerateRequest {
        conversation: Conversation { id: u64::from(place), place },
        tokens: Arc::from(tokens),
        max_tokens: 6,
        stop: Arc::from([]),
        stop_texts: None,
        sampling: Sampling::at(1.0),
        seed: Seed(3).child(place),
        token_sink: None,
    };
    change(&mut request);
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a place");
    engine.submit(WaitingRequest { request, reply, _permit: permit });
    answer
}

/// Slots and token counts of the prefills that bring all waiting prompts into the cache.
fn prefilled(engine: &mut Engine, model: &Model) -> Vec<(usize, usize)> {
    let _guard = no_grad_guard();
    engine.admit();
    let mut slots = Vec::new();
    while let Some(rows) = engine.next_prefill().expect("room") {
        slots.extend(rows.iter().map(|row| (row.slot, row.count)));
        engine.prefill(model, &rows).expect("computed");
    }
    slots
}

fn finish(engine: &mut Engine, model: &Model, answers: Vec<Answer>) -> Vec<Sampled> {
    while engine.has_work() {
        engine.step(model).expect("a step");
    }
    let answer = |mut answer: Answer| answer.try_recv().expect("an answer").expect("a reply").sampled;
    answers.into_iter().map(answer).collect()
}

#[test]
fn a_group_computes_its_prompt_once_and_generates_what_each_member_generates_alone() {
    let model = model();
    let prompt: Vec<u32> = (0..40).map(|index| index * 5 % 256).collect();
    let mut group = engine(&model);
    let answers: Vec<Answer> = (0..4).map(|place| submit(&mut group, place, &prompt)).collect();
    assert_eq!(prefilled(&mut group, &model), [(0, 39)]);
    let together = finish(&mut group, &model, answers);
    for (place, sampled) in together.iter().enumerate() {
        let mut alone = engine(&model);
        let answer = submit(&mut alone, place as u32, &prompt);
        assert_eq!(finish(&mut alone, &model, vec![answer])[0], *sampled, "place {place}");
    }
    // A later group of the same task, after the first was released.
    (0..4).for_each(|place| group.release(Conversation { id: place, place: place as u32 }));
    let answers: Vec<Answer> = (0..4).map(|place| submit(&mut group, place, &prompt)).collect();
    assert_eq!(prefilled(&mut group, &model), []);
    assert_eq!(finish(&mut group, &model, answers), together);
}

/// A request that arrives during generation joins at the next token, and a finished request frees its slot.
#[test]
fn requests_join_and_leave_between_tokens() {
    let model = model();
    for deterministic in [false, true] {
        let settings = TrainerSettings { max_concurrent_sequences: 2, deterministic, ..TrainerSettings::default() };
        let mut engine = Engine::new(&model, &settings, 128, 0).expect("an engine");
        let (token_sink, mut streamed) = tokio::sync::mpsc::unbounded_channel();
        let mut long = submit_as(&mut engine, 0, &[1, 2, 3], |request| {
            (request.max_tokens, request.token_sink) = (60, Some(token_sink));
        });
        (0..5).for_each(|_| engine.step(&model).expect("a step"));
        let mut sampled = 0;
        for _ in 0..3 {
            let mut short = submit(&mut engine, 1, &[4, 5]);
            let mut steps = 0;
            while short.try_recv().is_err() {
                engine.step(&model).expect("a step");
                steps += 1;
            }
            engine.release(Conversation { id: 1, place: 1 });
            // Six tokens take six steps, in which the other request gets as many tokens.
            assert!(steps <= 6, "{steps}");
            let more = std::iter::from_fn(|| streamed.try_recv().ok()).count();
            assert!(more >= steps, "{more} tokens in {steps} steps");
            sampled += more;
            assert!(long.try_recv().is_err(), "it is not complete");
        }
        while engine.has_work() {
            engine.step(&model).expect("a step");
        }
        let reply = long.try_recv().expect("an answer").expect("a reply").sampled;
        let rest = std::iter::from_fn(|| streamed.try_recv().ok()).count();
        assert_eq!((reply.tokens.len(), sampled + rest), (60, 60));
    }
}

#[test]
fn only_a_prompt_of_one_prefill_is_copied() {
    let model = model();
    let prompt: Vec<u32> = (0..40).map(|index| index * 5 % 256).collect();
    let mut engine = engine(&model);
    let first = submit(&mut engine, 0, &prompt);
    let longer = submit(&mut engine, 1, &[&prompt[..], &[7, 8]].concat());
    let shorter = submit(&mut engine, 2, &prompt[..39]);
    assert_eq!(prefilled(&mut engine, &model), [(0, 39), (1, 41), (2, 38)]);
    finish(&mut engine, &model, vec![first, longer, shorter]);
    // The first conversation continues: its second prompt was not computed in one prefill.
    let all = [&prompt[..], &[1, 2, 3]].concat();
    let other = submit(&mut engine, 3, &prompt);
    let again = submit(&mut engine, 0, &all[..20]);
    assert_eq!(prefilled(&mut engine, &model), [(3, 39)], "slot 0 no longer has it from one prefill");
    finish(&mut engine, &model, vec![other, again]);
}

/// An engine with room for this number of blocks of 32 positions, beside the scratch space.
fn crowded(model: &Model, blocks: usize) -> Engine {
    let settings = TrainerSettings { max_concurrent_sequences: 4, ..TrainerSettings::default() };
    let size = CacheSize { block: 32, count: 1 + blocks, positions: 160 };
    Engine::with_cache(model, &settings, 128, 0, size).expect("an engine")
}

fn greedy(engine: &mut Engine, place: u32, tokens: &[u32], most: usize) -> Answer {
    submit_as(engine, place, tokens, |request| (request.sampling, request.max_tokens) = (Sampling::GREEDY, most))
}

/// Four conversations of three to four blocks each, in two turns, with room for all and with room for hardly more than one:
/// everyone gets the same reply, and the oldest request gets its tokens without a break.
#[test]
fn conversations_wait_for_room_and_lose_nothing() {
    let model = model();
    let prompts: Vec<Vec<u32>> =
        (0..4).map(|place| (0..40 + place * 7).map(|at| (at * 5 + place) % 256).collect()).collect();
    let played = |blocks: usize| {
        let mut engine = crowded(&model, blocks);
        let mut texts = prompts.clone();
        let mut replies = Vec::new();
        for most in [30, 25] {
            let asked: Vec<Answer> =
                (0..).zip(&texts).map(|(place, text)| greedy(&mut engine, place, text, most)).collect();
            let mut steps = 0;
            while engine.has_work() {
                engine.step(&model).expect("a step");
                steps += 1;
                assert!(steps < 1000, "no progress");
            }
            let tokens: Vec<Vec<u32>> = asked
                .into_iter()
                .map(|mut answer| answer.try_recv().expect("an answer").expect("a reply").sampled.tokens)
                .collect();
            texts.iter_mut().zip(&tokens).for_each(|(text, reply)| text.extend(reply));
            replies.push(tokens);
        }
        (0..4).for_each(|place| engine.release(Conversation { id: place, place: place as u32 }));
        (0..4).for_each(|slot| engine.forget(slot));
        assert_eq!(engine.cache.free(), blocks, "no block is lost");
        replies
    };
    let roomy = played(20);
    assert!(roomy.iter().flatten().all(|reply| !reply.is_empty()));
    for blocks in [4, 5, 7] {
        assert_eq!(played(blocks), roomy, "{blocks} blocks");
    }
}

/// A prompt of 100 tokens takes three whole blocks once, and a block of each member for the rest.
#[test]
fn a_group_shares_the_blocks_of_its_prompt() {
    let model = model();
    let prompt: Vec<u32> = (0..101).map(|index| index * 5 % 256).collect();
    let mut engine = crowded(&model, 20);
    let answers: Vec<Answer> = (0..4).map(|place| greedy(&mut engine, place, &prompt, 3)).collect();
    engine.step(&model).expect("a step");
    assert_eq!(engine.cache.free(), 20 - 3 - 4);
    let replies = finish(&mut engine, &model, answers);
    let alike = |one: &Sampled, other: &Sampled| {
        let close = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-4;
        one.tokens == other.tokens && one.log_probs.iter().zip(&other.log_probs).all(close)
    };
    assert!(replies.iter().all(|reply| alike(reply, &replies[0])), "{replies:?}");
    // A branch that differs at position 50 shares one block and keeps the others' contents as they are.
    let mut branch = prompt[..50].to_vec();
    branch.extend([9, 8, 7]);
    let answer = greedy(&mut engine, 1, &branch, 3);
    let again = greedy(&mut engine, 2, &prompt, 3);
    let found = finish(&mut engine, &model, vec![answer, again]);
    let mut alone = crowded(&model, 20);
    let answer = greedy(&mut alone, 0, &branch, 3);
    let expected = &finish(&mut alone, &model, vec![answer])[0];
    assert!(alike(&found[0], expected) && alike(&found[1], &replies[0]), "{found:?}");
}

/// A long prompt is computed in portions, and another conversation gets a token in each step meanwhile.
#[test]
fn a_long_prompt_does_not_hold_up_others() {
    let model = model();
    let long: Vec<u32> = (0..100).map(|index| index * 5 % 256).collect();
    let mut engine = crowded(&model, 20);
    engine.portion = 16;
    let (token_sink, mut streamed) = tokio::sync::mpsc::unbounded_channel();
    let short = submit_as(&mut engine, 0, &[1, 2, 3], |request| {
        (request.sampling, request.max_tokens, request.token_sink) = (Sampling::GREEDY, 40, Some(token_sink));
    });
    engine.step(&model).expect("a step");
    let mut waiting = greedy(&mut engine, 1, &long, 1);
    let mut steps = 0;
    while waiting.try_recv().is_err() {
        while streamed.try_recv().is_ok() {}
        engine.step(&model).expect("a step");
        steps += 1;
        assert!(streamed.try_recv().is_ok(), "step {steps}");
    }
    // 100 tokens in portions of 16.
    assert_eq!(steps, 7);
    let mut whole = crowded(&model, 20);
    let answers = vec![greedy(&mut whole, 1, &long, 1)];
    drop(short);
    let expected = finish(&mut whole, &model, answers);
    let mut again = crowded(&model, 20);
    again.portion = 16;
    let answers = vec![greedy(&mut again, 1, &long, 1)];
    assert_eq!(finish(&mut again, &model, answers)[0].tokens, expected[0].tokens);
}
