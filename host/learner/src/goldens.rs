//! Every preset against numbers of an independent program, `tests/reference/make_algorithm_goldens.py`: advantages, losses
//! and their gradients.
mod whole_episodes;

use gymkhana_record::Seed;
use serde_json::Value;

use crate::advantage::{self, AdvantageInput, AdvantageState, TurnPart};
use crate::layout::{Batch, ContextLayout, EpisodeLayout, TokenPos};
use crate::minibatch::{Minibatch, value_sequences, weigh};
use crate::replay::Buffer;
use gymkhana_algorithm::RlSettings;
use gymkhana_algorithm::{Algorithm, Preset, SharedTurns};
use gymkhana_engine::loss::value_loss;
use gymkhana_engine::{Column, Evaluated, Flat, Loss, Sequence, Target, TokenNumbers, TokenStats};

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../tests/golden/algorithms.json")).expect("JSON")
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
    let mut reading = Reading::default();
    for (group, episodes) in list(&fixture["groups"]).iter().enumerate() {
        let first = reading.batch.episodes.len();
        for found in list(episodes) {
            let finished = found["finished"].as_bool().expect("a flag");
            let mut contexts = Vec::new();
            for (seat, part) in (0..).zip(list(&found["seats"])) {
                let input = AdvantageInput { group, seat, finished, ..AdvantageInput::default() };
                contexts.extend(reading.part(part, input, first, flags));
            }
            reading.batch.episodes.push(EpisodeLayout { task: String::new(), contexts });
        }
        reading.batch.groups += 1;
    }
    (reading.batch, reading.tokens)
}

/// A batch under construction.
#[derive(Default)]
struct Reading {
    batch: Batch,
    tokens: Vec<Value>,
    /// Indices of the tokens in the sequences, by input and turn.
    places: Vec<Vec<Vec<usize>>>,
}

impl Reading {
    /// Adds a seat's part of an episode; returns its contexts. `first` is the first episode of the group.
    fn part(&mut self, part: &Value, input: AdvantageInput, first: usize, flags: &Algorithm) -> Vec<ContextLayout> {
        let (index, episode) = (self.batch.inputs.len(), self.batch.episodes.len());
        let turns = list(&part["turns"]);
        let in_turns: f64 = turns.iter().map(|turn| number(turn, "reward")).sum();
        let (reward, end_value) = (number(part, "reward"), part["end_value"].as_f64().unwrap_or(0.0));
        let mut input = AdvantageInput { episode, reward, rest: reward - in_turns, end_value, ..input };
        let (mut positions, mut places) = (Vec::new(), Vec::new());
        for (turn, value) in turns.iter().enumerate() {
            let mut read = turn_part(value);
            let (mut rows, mut own) = (turn_tokens(value, flags), Vec::new());
            if part["shares"]["turns"].as_u64().is_some_and(|shared| (turn as u64) < shared) {
                let owner = first + part["shares"]["episode"].as_u64().expect("an episode") as usize;
                let is_owner = |other: &AdvantageInput| other.episode == owner && other.seat == input.seat;
                let owner = self.batch.inputs.iter().position(is_owner).expect("an earlier episode");
                match flags.shared_turns {
                    SharedTurns::Once => read.shared_with = Some(owner),
                    SharedTurns::PerEpisode => {
                        let tokens = &self.batch.inputs[owner];
                        tokens.turns[turn].tokens.clone().for_each(|row| rows.push_row(&tokens.tokens, row));
                        own.clone_from(&self.places[owner][turn]);
                    }
                }
            }
            for row in list(&value["tokens"]) {
                self.tokens.push(row.clone());
                own.push(self.tokens.len());
            }
            let first = input.tokens.len();
            positions.push(own.iter().enumerate().map(|(row, at)| (*at, turn, first + row)).collect::<Vec<_>>());
            input.push_turn(read, &rows);
            places.push(own);
        }
        self.batch.inputs.push(input);
        self.places.push(places);
        self.contexts(part, &positions, index)
    }

    /// The contexts of a part, from the index in the sequence, the turn and the index in the input of each token.
    fn contexts(&self, part: &Value, turns: &[Vec<(usize, usize, usize)>], input: usize) -> Vec<ContextLayout> {
        let counts = part["contexts"].as_array().map_or(vec![turns.len()], |counts| {
            counts.iter().map(|count| count.as_u64().expect("a number") as usize).collect()
        });
        let (mut contexts, mut rest) = (Vec::new(), turns);
        for count in counts {
            let (here, later) = rest.split_at(count);
            let position =
                |(at, turn, token): &(usize, usize, usize)| TokenPos { at: *at, input, turn: *turn, token: *token };
            let positions = here.iter().flatten().map(position).collect();
            contexts.push(ContextLayout { tokens: vec![0; self.tokens.len() + 1], positions });
            rest = later;
        }
        contexts
    }
}

fn turn_part(value: &Value) -> TurnPart {
    TurnPart {
        reward: number(value, "reward") + number(value, "gain"),
        anchor: value["anchor"].as_str().expect("a name").bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)),
        void: value["void"].as_bool().expect("a flag"),
        cut: value["cut"].as_bool().unwrap_or(false),
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

fn memory(fixture: &Value) -> AdvantageState {
    let history = fixture["history"].as_array().into_iter().flatten().enumerate();
    let averages = fixture["averages"].as_array().into_iter().flatten();
    AdvantageState {
        entropies: history.map(|(turn, mean)| (turn, (mean.as_f64().expect("a mean"), 1))).collect(),
        averages: (0..).zip(averages).map(|(seat, mean)| (seat, mean.as_f64().expect("a mean"))).collect(),
        ..AdvantageState::default()
    }
}

/// Compares with a relative tolerance of 1e-5, and of 1e-6 of `scale` for numbers that nearly cancel.
#[track_caller]
fn near(found: f64, expected: f64, scale: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-5 * expected.abs() + 1e-6 * scale, "{what}: {found} is not {expected}");
}

/// Compares numbers of tokens; their scale is the largest one.
#[track_caller]
fn all_near(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        near(*found, *expected, scale, &format!("{what} of token {index}"));
    }
}

/// A column of the fixture's tokens for the targets.
fn column(targets: &[Target], tokens: &[Value], name: &str) -> Vec<f64> {
    targets.iter().map(|target| number(&tokens[target.at - 1], name)).collect()
}

/// Derivatives of all tokens; 0 for masked tokens. A token of several sequences has the sum.
fn spread(by: &[f64], targets: &[Target], count: usize) -> Vec<f64> {
    let mut spread = vec![0.0; count];
    for (target, derivative) in targets.iter().zip(by) {
        spread[target.at - 1] += derivative;
    }
    spread
}

/// The loss of sequences by the numbers of their targets.
fn evaluated(flat: &Flat, flags: &Algorithm, numbers: &TokenNumbers) -> Evaluated {
    flat.evaluate(Loss::Policy { flags, version: 0 }, numbers)
}

fn check(case: &Value, fixture: &Value) {
    let flags = flags(case);
    let name = format!("{} {} {}", case["preset"], case["fixture"], case["overrides"]);
    let (mut batch, tokens) = batch(fixture, &flags);
    let mut memory = memory(fixture);
    advantage::compute(&mut batch.inputs, &flags, &mut memory, 5, &mut Seed(1).stream());
    check_advantages(case, &batch, &name);
    let all: Vec<usize> = (0..batch.episodes.len()).collect();
    let episodes = case["episodes"]
        .as_array()
        .map_or(all, |chosen| chosen.iter().map(|episode| episode.as_u64().expect("a number") as usize).collect());
    let sequences = sequences(&batch, &episodes, &flags, 1.0);
    let flat = Flat::of(&sequences);
    let of = |name| column(&flat.targets, &tokens, name);
    let entropies = (flags.entropy_bonus > 0.0).then(|| of("entropy"));
    let found = evaluated(&flat, &flags, &TokenNumbers { entropies, ..of("current").into() });
    near(found.sums.loss, number(case, "loss"), 1.0, &format!("{name}: loss"));
    for (by, key) in [(Some(&found.by.log_probs), "gradient"), (found.by.entropies.as_ref(), "entropy_gradient")] {
        if !case[key].is_null() {
            let found = by.map(|by| spread(by, &flat.targets, tokens.len()));
            all_near(&found.unwrap_or_else(|| vec![0.0; tokens.len()]), &leaves(&case[key]), &format!("{name}: {key}"));
        }
    }
    if !case["value_loss"].is_null() {
        check_values(case, &batch, &flags, &tokens, &name);
    }
    for (seat, expected) in (0..).zip(leaves(&case["averages_after"]).into_iter().filter(|average| !average.is_nan())) {
        near(memory.averages[&seat], expected, 1.0, &format!("{name}: average of seat {seat}"));
    }
}

/// Advantages of the tokens in the loss; a null in the golden file is a masked token.
fn check_advantages(case: &Value, batch: &Batch, name: &str) {
    let tokens = batch.inputs.iter().flat_map(|AdvantageInput { tokens, .. }| {
        (0..tokens.len()).map(|token| (tokens.is_in_loss(token), tokens.get(Column::Advantage, token)))
    });
    let (found, expected): (Vec<(bool, f64)>, Vec<f64>) = (tokens.collect(), leaves(&case["advantages"]));
    let in_loss: Vec<bool> = found.iter().map(|(in_loss, _)| *in_loss).collect();
    assert_eq!(
        in_loss,
        expected.iter().map(|number| !number.is_nan()).collect::<Vec<_>>(),
        "{name}: tokens in the loss"
    );
    let found: Vec<f64> = found.into_iter().filter(|(in_loss, _)| *in_loss).map(|(_, advantage)| advantage).collect();
    let expected: Vec<f64> = expected.into_iter().filter(|number| !number.is_nan()).collect();
    all_near(&found, &expected, &format!("{name}: advantage"));
}

/// The weighed sequences of some episodes, those without a gradient included.
fn sequences(batch: &Batch, episodes: &[usize], flags: &Algorithm, factor: f64) -> Vec<Sequence> {
    let settings = RlSettings { algorithm: flags.clone(), ..RlSettings::default() };
    let Minibatch { mut trained, mut idle } = weigh(batch, episodes, &settings, factor);
    trained.append(&mut idle);
    trained
}

fn check_values(case: &Value, batch: &Batch, flags: &Algorithm, tokens: &[Value], name: &str) {
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    let sequences = value_sequences(batch, &episodes);
    let flat = Flat::of(&sequences);
    let clip = flags.critic.expect("a critic").clip;
    let (mut sum, mut by) = (0.0, vec![]);
    for (row, now) in column(&flat.targets, tokens, "value_now").into_iter().enumerate() {
        let of = |column| flat.stats.get(column, row);
        let (loss, slope) = value_loss(now, of(Column::Value), of(Column::ValueTarget), clip);
        sum += loss * of(Column::LossWeight);
        by.push(slope * of(Column::LossWeight));
    }
    near(sum, number(case, "value_loss"), 1.0, &format!("{name}: value loss"));
    let found = spread(&by, &flat.targets, tokens.len());
    all_near(&found, &leaves(&case["value_gradient"]), &format!("{name}: value gradient"));
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
    for name in Preset::names().filter(|name| !["dpo", "kto", "distill"].contains(name)) {
        assert!(seen.contains(&name), "{name} has no golden numbers");
    }
}

/// The constants of presets are those that the programs of the golden numbers write out, whatever a case overrides.
#[test]
fn constants_of_presets_are_those_of_the_papers() {
    for (name, constants) in golden()["constants"].as_object().expect("an object") {
        let flags = serde_json::to_value(preset(name)).expect("JSON");
        same_constants(&flags, constants, name);
    }
}

/// Compares the numbers of `expected`, nested in objects, with those of the same keys.
fn same_constants(found: &Value, expected: &Value, path: &str) {
    match expected.as_object() {
        Some(keys) => keys.iter().for_each(|(key, value)| same_constants(&found[key], value, &format!("{path}.{key}"))),
        None if expected.is_string() => assert_eq!(found, expected, "{path}"),
        None => assert_eq!(found.as_f64(), expected.as_f64(), "{path}"),
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

/// The loss and its derivatives by each token's log-probability.
fn gradients(batch: &Batch, flags: &Algorithm, tokens: &[Value], factor: f64) -> (f64, Vec<f64>) {
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    let sequences = sequences(batch, &episodes, flags, factor);
    let flat = Flat::of(&sequences);
    let found = evaluated(&flat, flags, &column(&flat.targets, tokens, "current").into());
    (found.sums.loss, spread(&found.by.log_probs, &flat.targets, tokens.len()))
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
    advantage::compute(&mut batch.inputs, &flags, &mut AdvantageState::default(), 0, &mut Seed(1).stream());
    let (loss, found) = gradients(&batch, &flags, &tokens, 1.0);
    near(loss, number(golden, "loss"), 1.0, "loss of distillation");
    all_near(&found, &leaves(&golden["gradients"]), "gradient");
}

/// SPEAR's replay at a later step, alone, with an off-policy correction, and with a covariance clip after it.
#[test]
fn replayed_episodes_are_those_of_the_formula() {
    let golden = golden();
    let (step, version) = (&golden["replay"]["step"], &golden["replay"]["version"]);
    let (step, version) = (step.as_u64().expect("a number"), version.as_u64().expect("a number") as u32);
    for case in list(&golden["replay"]["cases"]) {
        let mut flags = preset("spear");
        let overrides = &case["overrides"];
        flags.covariance_clip = serde_json::from_value(overrides["covariance_clip"].clone()).ok();
        flags.off_policy =
            overrides.get("off_policy").map(|table| serde_json::from_value(table.clone()).expect("flags"));
        let (mut fresh, tokens) = batch(&golden["fixtures"]["solo"], &flags);
        let plain = Algorithm { covariance_clip: None, off_policy: None, ..flags.clone() };
        let mut stream = Seed(1).stream();
        advantage::compute(&mut fresh.inputs, &plain, &mut AdvantageState::default(), version, &mut stream);
        let (mut buffer, replay) = (Buffer::default(), flags.replay.expect("a preset that replays"));
        buffer.imitate(&fresh, replay, step, version, &mut stream);
        let (mut again, factor) = buffer.imitate(&fresh, replay, step, version, &mut stream);
        advantage::correct_replayed(&mut again.inputs, &flags, version, &mut stream);
        let (loss, found) = gradients(&again, &flags, &tokens, factor);
        near(loss, number(case, "loss"), 1.0, &format!("{overrides}: loss"));
        all_near(&found, &leaves(&case["gradient"]), &format!("{overrides}: gradient"));
    }
}
