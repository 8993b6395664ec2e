//! Every preset against numbers of an independent program, `tests/reference/make_algorithm_goldens.py`: advantages, losses
//! and their gradients.

use gymkhana_record::Seed;
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::layout::{Batch, ContextLayout, EpisodeLayout, TokenPos};
use super::minibatch::{value_sequences, weigh};
use super::pairs::compare;
use crate::advantage::{self, AdvantageInput, Memory, TurnPart};
use crate::batch::{Packed, Target, parts};
use crate::loss::{objective, value_loss};
use crate::token_stats::{Column, TokenStats};
use gymkhana_algorithm::RlSettings;
use gymkhana_algorithm::{Algorithm, Preset, Surrogate};

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../../tests/golden/algorithms.json")).expect("JSON")
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("`{name}` of {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// The numbers in a tree of lists, in order; NaN for null.
fn leaves(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        other => vec![other.as_f64().unwrap_or(f64::NAN)],
    }
}

/// The preset with the case's keys replaced.
fn flags(case: &Value) -> Algorithm {
    let mut table = Preset::named(case["preset"].as_str().expect("a name")).expect("a preset").flags().clone();
    let overrides: toml::Table = serde_json::from_value(case["overrides"].clone()).expect("a table");
    table.extend(overrides);
    let flags: Algorithm = table.try_into().expect("flags");
    flags.check().expect("flags that make sense");
    flags
}

/// A fixture as a batch. Every token is a target whose index in the sequence identifies it.
fn batch(fixture: &Value, flags: &Algorithm) -> (Batch, Vec<Value>) {
    let (mut batch, mut tokens) = (Batch::default(), Vec::new());
    for (group, episodes) in list(&fixture["groups"]).iter().enumerate() {
        for found in list(episodes) {
            let mut contexts = Vec::new();
            for (seat, part) in (0..).zip(list(&found["seats"])) {
                let (index, mut positions) = (batch.inputs.len(), Vec::new());
                let in_turns: f64 = list(&part["turns"]).iter().map(|turn| number(turn, "reward")).sum();
                let reward = number(part, "reward");
                let mut input = AdvantageInput {
                    group,
                    episode: batch.episodes.len(),
                    seat,
                    reward,
                    rest: reward - in_turns,
                    finished: found["finished"].as_bool().expect("a flag"),
                    ..AdvantageInput::default()
                };
                for (turn, value) in list(&part["turns"]).iter().enumerate() {
                    let first = input.tokens.len();
                    for (token, row) in list(&value["tokens"]).iter().enumerate() {
                        tokens.push(row.clone());
                        positions.push(TokenPos { at: tokens.len(), input: index, turn, token: first + token });
                    }
                    input.push_turn(turn_part(value), &turn_tokens(value, flags));
                }
                batch.inputs.push(input);
                contexts.push(ContextLayout { tokens: vec![0; tokens.len() + 1], positions });
            }
            batch.episodes.push(EpisodeLayout { task: String::new(), contexts });
        }
        batch.groups += 1;
    }
    (batch, tokens)
}

fn turn_part(value: &Value) -> TurnPart {
    TurnPart {
        reward: number(value, "reward") + number(value, "gain"),
        anchor: value["anchor"].as_str().expect("a name").bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)),
        void: value["void"].as_bool().expect("a flag"),
        ..TurnPart::default()
    }
}

fn turn_tokens(value: &Value, flags: &Algorithm) -> TokenStats {
    let mut stats = TokenStats::default();
    for token in list(&value["tokens"]) {
        stats.push(&[
            (Column::Behaviour, number(token, "behaviour")),
            (Column::Proximal, number(token, if flags.off_policy.is_some() { "proximal" } else { "behaviour" })),
            (Column::Reference, number(token, "reference")),
            (Column::Entropy, number(token, "entropy")),
            (Column::Value, number(token, "value")),
            (Column::Version, number(token, "version")),
        ]);
    }
    stats
}

fn memory(fixture: &Value) -> Memory {
    let history = fixture["history"].as_array().into_iter().flatten().enumerate();
    let averages = fixture["averages"].as_array().into_iter().flatten();
    Memory {
        entropies: history.map(|(turn, mean)| (turn, (mean.as_f64().expect("a mean"), 1))).collect(),
        averages: (0..).zip(averages).map(|(seat, mean)| (seat, mean.as_f64().expect("a mean"))).collect(),
    }
}

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{what}: {found} is not {expected}");
}

/// A column of the fixture's tokens for the targets, with gradients.
fn column(targets: &[Target], tokens: &[Value], name: &str) -> Tensor {
    let numbers: Vec<f32> = targets.iter().map(|target| number(&tokens[target.at - 1], name) as f32).collect();
    Tensor::from_slice(&numbers).set_requires_grad(true)
}

/// Gradients of all tokens; 0 for masked tokens.
fn spread(leaf: &Tensor, targets: &[Target], count: usize) -> Vec<f64> {
    let mut spread = vec![0.0; count];
    let gradient = leaf.grad();
    if gradient.defined() {
        let gradient = Vec::<f64>::try_from(gradient.to_kind(Kind::Double)).expect("numbers");
        for (target, gradient) in targets.iter().zip(gradient) {
            spread[target.at - 1] += gradient;
        }
    }
    spread
}

fn check(case: &Value, fixture: &Value) {
    let flags = flags(case);
    let name = format!("{} {}", case["preset"], case["overrides"]);
    let (mut batch, tokens) = batch(fixture, &flags);
    let mut memory = memory(fixture);
    advantage::compute(&mut batch.inputs, &flags, &mut memory, 5, &mut Seed(1).stream());
    let found = batch.inputs.iter().flat_map(|AdvantageInput { tokens, .. }| {
        (0..tokens.len()).map(|token| (tokens.is_in_loss(token), tokens.get(Column::Advantage, token)))
    });
    for (index, ((in_loss, advantage), expected)) in found.zip(leaves(&case["advantages"])).enumerate() {
        assert_eq!(in_loss, !expected.is_nan(), "{name}: whether token {index} is in the loss");
        if in_loss {
            near(advantage, expected, &format!("{name}: advantage of token {index}"));
        }
    }
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    let sequences = weigh(&batch, &episodes, &RlSettings { algorithm: flags.clone(), ..RlSettings::default() }, 1.0);
    let parts = parts(&sequences, 1 << 20, true);
    let packed = Packed::new(&parts[0], Device::Cpu);
    let current = column(&packed.targets, &tokens, "current");
    let entropies = column(&packed.targets, &tokens, "entropy");
    let entropies_wanted = (flags.entropy_bonus > 0.0).then_some(&entropies);
    let found = objective(&flags, &current, entropies_wanted, &packed.inputs(flags.ratio));
    found.loss.backward();
    near(found.loss.double_value(&[]), number(case, "loss"), &format!("{name}: loss"));
    for (leaf, key) in [(&current, "gradient"), (&entropies, "entropy_gradient")] {
        if case[key].is_null() {
            continue;
        }
        let found = spread(leaf, &packed.targets, tokens.len());
        for (index, (found, expected)) in found.into_iter().zip(leaves(&case[key])).enumerate() {
            near(found, expected, &format!("{name}: {key} of token {index}"));
        }
    }
    if !case["value_loss"].is_null() {
        check_values(case, &batch, &flags, &tokens, &name);
    }
    for (seat, expected) in (0..).zip(leaves(&case["averages_after"]).into_iter().filter(|average| !average.is_nan())) {
        near(memory.averages[&seat], expected, &format!("{name}: average of seat {seat}"));
    }
}

fn check_values(case: &Value, batch: &Batch, flags: &Algorithm, tokens: &[Value], name: &str) {
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    let sequences = value_sequences(batch, &episodes);
    let packed = Packed::new(&parts(&sequences, 1 << 20, true)[0], Device::Cpu);
    let now = column(&packed.targets, tokens, "value_now");
    let [before, goals] = [Column::Value, Column::ValueTarget].map(|column| packed.column(column));
    let clip = flags.critic.expect("a critic").clip;
    let loss = (value_loss(&now, &before, &goals, clip) * packed.column(Column::LossWeight)).sum(Kind::Float);
    loss.backward();
    near(loss.double_value(&[]), number(case, "value_loss"), &format!("{name}: value loss"));
    let found = spread(&now, &packed.targets, tokens.len());
    for (index, (found, expected)) in found.into_iter().zip(leaves(&case["value_gradient"])).enumerate() {
        near(found, expected, &format!("{name}: value gradient of token {index}"));
    }
}

#[test]
fn every_preset_gives_the_golden_numbers() {
    let golden = golden();
    let mut seen: Vec<&str> = Vec::new();
    for case in list(&golden["cases"]) {
        check(case, &golden["fixtures"][case["fixture"].as_str().expect("a name")]);
        seen.push(case["preset"].as_str().expect("a name"));
    }
    // These two have fixtures of their own.
    for name in Preset::names().filter(|name| !["dpo", "distill"].contains(name)) {
        assert!(seen.contains(&name), "{name} has no golden numbers");
    }
}

/// A preset by its name.
fn preset(name: &str) -> Algorithm {
    Preset::named(name).and_then(|preset| preset.algorithm()).expect("a preset")
}

/// Adds an episode of one turn with these tokens; `row` gives each token's numbers.
fn add(batch: &mut Batch, group: usize, reward: f64, tokens: &[Value], row: impl Fn(&Value) -> Vec<(Column, f64)>) {
    let index = batch.inputs.len();
    let first = batch.inputs.iter().map(|input| input.tokens.len()).sum::<usize>();
    let position = |token| TokenPos { at: first + token + 1, input: index, turn: 0, token };
    let positions: Vec<TokenPos> = (0..tokens.len()).map(position).collect();
    let mut stats = TokenStats::default();
    tokens.iter().for_each(|token| stats.push(&row(token)));
    let mut input = AdvantageInput { group, episode: index, reward, ..AdvantageInput::default() };
    input.push_turn(TurnPart::default(), &stats);
    batch.inputs.push(input);
    let context = ContextLayout { tokens: vec![0; first + tokens.len() + 1], positions };
    batch.episodes.push(EpisodeLayout { task: String::new(), contexts: vec![context] });
    batch.groups = group + 1;
}

/// The objective's loss and its gradients by each token's log-probability.
fn gradients(batch: &Batch, flags: &Algorithm, tokens: &[Value]) -> (f64, Vec<f64>) {
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    let settings = RlSettings { algorithm: flags.clone(), ..RlSettings::default() };
    let sequences = weigh(batch, &episodes, &settings, 1.0);
    let packed = Packed::new(&parts(&sequences, 1 << 20, true)[0], Device::Cpu);
    let current = column(&packed.targets, tokens, "current");
    let found = objective(flags, &current, None, &packed.inputs(flags.ratio));
    found.loss.backward();
    (found.loss.double_value(&[]), spread(&current, &packed.targets, tokens.len()))
}

#[test]
fn preferences_are_those_of_the_formula() {
    let golden = &golden()["pairs"];
    let (mut batch, mut tokens, mut expected) = (Batch::default(), Vec::new(), Vec::new());
    let row = |token: &Value| {
        vec![(Column::Proximal, number(token, "current")), (Column::Reference, number(token, "reference"))]
    };
    for (group, (pair, gradients)) in list(&golden["pairs"]).iter().zip(list(&golden["gradients"])).enumerate() {
        for (side, reward) in [("chosen", 1.0), ("rejected", 0.0)] {
            add(&mut batch, group, reward, list(&pair[side]), row);
            tokens.extend(list(&pair[side]).iter().cloned());
            expected.extend(leaves(&gradients[side]));
        }
    }
    let mut flags = preset("dpo");
    flags.surrogate = Surrogate::Preference { beta: number(golden, "beta") };
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    near(compare(&mut batch, &episodes, flags.surrogate), number(golden, "loss"), "loss of pairs");
    let (_, found) = gradients(&batch, &flags, &tokens);
    for (index, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        near(found, expected, &format!("gradient of token {index}"));
    }
}

#[test]
fn distillation_is_that_of_the_formula() {
    let golden = &golden()["distillation"];
    let (mut batch, mut tokens) = (Batch::default(), Vec::new());
    let row = |token: &Value| {
        let behaviour = number(token, "behaviour");
        let teacher = number(token, "teacher");
        vec![(Column::Behaviour, behaviour), (Column::Proximal, behaviour), (Column::Teacher, teacher)]
    };
    for episode in list(&golden["episodes"]) {
        add(&mut batch, 0, 0.0, list(episode), row);
        tokens.extend(list(episode).iter().cloned());
    }
    let flags = preset("distill");
    advantage::compute(&mut batch.inputs, &flags, &mut Memory::default(), 0, &mut Seed(1).stream());
    let (loss, found) = gradients(&batch, &flags, &tokens);
    near(loss, number(golden, "loss"), "loss of distillation");
    for (index, (found, expected)) in found.into_iter().zip(leaves(&golden["gradients"])).enumerate() {
        near(found, expected, &format!("gradient of token {index}"));
    }
}
