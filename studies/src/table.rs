//! An episode played directly against a trainer, without plugins.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use gymkhana_policy::{Conversation, GenerateRequest, Policy, Sampling, ScoreRequest};
use gymkhana_record::{
    Call, Ending, EpisodeId, EpisodeRecord, Part, Phase, PolicyTurn, Sampled, SeatFunctions, Seed, Segment,
    StepMetrics, TaskRef, Turn,
};
use gymkhana_trainer::{Algorithm, Optimizer, Preset, RlSettings, TinyModel, Trainer, TrainerSettings};

/// Number of groups per step, and of episodes per group.
pub const GROUPS: u32 = 8;
/// Number of episodes per group; see [`GROUPS`].
pub const MEMBERS: u32 = 8;
/// Maximum number of seats per episode; each has its own context.
const SEATS: u32 = 2;

/// A model of some thousand parameters.
pub fn trainer(seed: Seed) -> Result<Trainer> {
    trainer_of(GROUPS, seed)
}

/// The same model with a number of concurrent groups.
pub fn trainer_of(groups: u32, seed: Seed) -> Result<Trainer> {
    let tiny = TinyModel { layers: 2, width: 32, heads: 4, kv_heads: 2, mlp: 48, context: 128 };
    let slots = (groups * MEMBERS * SEATS) as usize;
    Ok(Trainer::create(
        &tiny,
        &TrainerSettings { max_concurrent_sequences: slots, seed, ..TrainerSettings::default() },
    )?)
}

/// Flags of a preset.
pub fn preset(name: &str) -> Result<Algorithm> {
    Ok(Preset::named(name)?.algorithm()?)
}

/// Settings of training with these flags.
pub fn settings(algorithm: Algorithm, learning_rate: f64) -> RlSettings {
    let optimizer = Optimizer { learning_rate, ..Optimizer::default() };
    RlSettings { optimizer, algorithm, ..RlSettings::default() }
}

/// A metric of a training step.
pub fn reported(metrics: &StepMetrics, name: &str) -> Result<f64> {
    metrics.get(name).with_context(|| format!("a step reports no `{name}`"))
}

/// Gradient norm of a training step; zero where no sequence had a gradient, of which a step reports no norm.
pub fn gradient_norm(metrics: &StepMetrics) -> f64 {
    metrics.get("gradient_norm").unwrap_or(0.0)
}

/// Mean over the episodes of a value.
pub fn mean(groups: &[Vec<EpisodeRecord>], figure: impl Fn(&EpisodeRecord) -> f64) -> f64 {
    let figures: Vec<f64> = groups.iter().flatten().map(figure).collect();
    figures.iter().sum::<f64>() / figures.len() as f64
}

/// Mean reward of the first seat.
pub fn reward(groups: &[Vec<EpisodeRecord>]) -> f64 {
    mean(groups, |episode| episode.rewards[0])
}

/// Mean entropy of the sampled tokens' distributions, in nats.
pub fn entropy(groups: &[Vec<EpisodeRecord>]) -> f64 {
    mean(groups, |episode| {
        let segment = &episode.segments[0];
        let sampled = (0..segment.len()).filter(|at| segment.sampled()[*at]);
        let entropies: Vec<f64> = sampled.map(|at| f64::from(segment.entropies()[at])).collect();
        entropies.iter().sum::<f64>() / entropies.len() as f64
    })
}

/// Plays all groups of a step concurrently.
pub async fn play<'a, Played>(
    trainer: &'a Trainer,
    step: u64,
    seed: Seed,
    one: impl Fn(Table<'a>) -> Played,
) -> Result<Vec<Vec<EpisodeRecord>>>
where
    Played: Future<Output = Result<EpisodeRecord>>,
{
    play_groups(GROUPS, trainer, step, seed, one).await
}

/// Plays a number of groups concurrently.
pub async fn play_groups<'a, Played>(
    groups: u32,
    trainer: &'a Trainer,
    step: u64,
    seed: Seed,
    one: impl Fn(Table<'a>) -> Played,
) -> Result<Vec<Vec<EpisodeRecord>>>
where
    Played: Future<Output = Result<EpisodeRecord>>,
{
    play_sizes(&vec![MEMBERS; groups as usize], trainer, step, seed, one).await
}

/// Plays groups of these sizes concurrently.
pub async fn play_sizes<'a, Played>(
    sizes: &[u32],
    trainer: &'a Trainer,
    step: u64,
    seed: Seed,
    one: impl Fn(Table<'a>) -> Played,
) -> Result<Vec<Vec<EpisodeRecord>>>
where
    Played: Future<Output = Result<EpisodeRecord>>,
{
    let one = &one;
    let mut before = 0;
    let groups = (0_u32..).zip(sizes).map(|(group, size)| {
        let first = before;
        before += size;
        try_join_all((0..*size).map(move |member| {
            one(Table { place: first + member, ..Table::new(trainer, (step, group, member), seed) })
        }))
    });
    try_join_all(groups.collect::<Vec<_>>()).await
}

/// An episode in progress. Each seat has its own context.
pub struct Table<'a> {
    trainer: &'a Trainer,
    seed: Seed,
    of_group: Seed,
    /// Index of the episode in its step.
    pub step: u64,
    /// See `step`.
    pub group: u32,
    /// See `step`.
    pub member: u32,
    /// Index of the episode among those of its step.
    place: u32,
    record: EpisodeRecord,
}

impl<'a> Table<'a> {
    fn new(trainer: &'a Trainer, (step, group, member): (u64, u32, u32), seed: Seed) -> Self {
        let record = record(step, group, member);
        let of_group = seed.child(step).child(group);
        Self { trainer, seed: of_group.child(member), of_group, step, group, member, place: 0, record }
    }

    /// Random stream of this episode.
    pub fn chance(&self, name: &str) -> Seed {
        self.seed.child(name)
    }

    /// Random stream of this episode's group, which decides its task.
    pub fn chance_of_group(&self, name: &str) -> Seed {
        self.of_group.child(name)
    }

    fn see(&mut self, seat: u32, tokens: &[u32]) {
        let turn = self.turn(seat);
        self.segment(seat).append_given(tokens, turn);
    }

    /// Records that the first seat could call a tool.
    pub fn may_call(&mut self) {
        let function = gymkhana_record::Function {
            name: "look".to_owned(),
            description: String::new(),
            parameters: "{}".to_owned(),
            cost: 0.0,
        };
        self.record.opening.functions = vec![SeatFunctions { seat: 0, functions: vec![function] }];
    }

    /// Records a call of the first seat.
    pub fn called(&mut self) {
        let call = Call { id: "0".to_owned(), name: "look".to_owned(), arguments: "{}".to_owned() };
        self.record.turns.push(Turn::Call { seat: 0, call, cost: 0.0 });
    }

    /// Records the first seat's message with its answer.
    pub fn answered(&mut self, text: &str) {
        self.record.turns.push(Turn::Message { seat: 0, content: vec![Part::Text(text.to_owned())] });
    }

    /// Shows a text to a seat.
    pub fn show(&mut self, seat: u32, text: &str) {
        self.record.turns.push(Turn::Observation { seat, content: vec![Part::Text(text.to_owned())] });
        let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
        self.see(seat, &tokens);
    }

    /// Lets a seat sample a number of tokens.
    pub async fn say(&mut self, seat: u32, count: usize) -> Result<Vec<u32>> {
        let (turn, conversation) = (self.turn(seat), self.conversation(seat));
        let request = GenerateRequest {
            conversation,
            tokens: Arc::from(self.segment(seat).tokens()),
            max_tokens: count,
            stop: Arc::from([]),
            stop_texts: None,
            token_sink: None,
            sampling: Sampling::at(1.0),
            seed: self.seed.child("say").child(seat).child(turn),
        };
        let sampled = self.trainer.generate(request).await?.sampled;
        self.take(seat, &sampled)?;
        Ok(sampled.tokens)
    }

    /// Adds tokens to a seat as if it had sampled them, with the policy's probabilities.
    pub async fn force(&mut self, seat: u32, tokens: &[u32]) -> Result<()> {
        let prefix = Arc::from(self.segment(seat).tokens());
        let scored = self.trainer.score(ScoreRequest { prefix, continuation: Arc::from(tokens) }).await?;
        self.take(seat, &scored)
    }

    /// Ends the episode with a reward per seat.
    pub fn end(mut self, ending: Ending, rewards: Vec<f64>) -> EpisodeRecord {
        for seat in 0..SEATS {
            self.trainer.release(self.conversation(seat));
        }
        self.record.success = rewards.iter().any(|reward| *reward > 0.0);
        (self.record.ending, self.record.rewards) = (ending, rewards);
        self.record.segments.retain(|segment| segment.sampled().contains(&true));
        self.record
    }

    fn take(&mut self, seat: u32, sampled: &Sampled) -> Result<()> {
        let turn = self.turn(seat);
        let transcript = self.record.turns.len() as u32;
        self.segment(seat).append_sampled(sampled, turn)?;
        self.record.policy_turns.push(PolicyTurn {
            seat,
            turn,
            transcript,
            steps: turn,
            state: None,
            probe_score: None,
            thought_tokens: 0,
            note: None,
        });
        Ok(())
    }

    fn turn(&self, seat: u32) -> u32 {
        self.record.policy_turns.iter().filter(|turn| turn.seat == seat).count() as u32
    }

    fn segment(&mut self, seat: u32) -> &mut Segment {
        &mut self.record.segments[seat as usize]
    }

    fn conversation(&self, seat: u32) -> Conversation {
        let place = self.place * SEATS + seat;
        Conversation { id: u64::from(place), place }
    }
}

fn record(step: u64, group: u32, member: u32) -> EpisodeRecord {
    EpisodeRecord {
        turn_limit: 64,
        segments: (0..SEATS).map(Segment::new).collect(),
        ..EpisodeRecord::new(
            EpisodeId { stage: 0, phase: Phase::Train, step, group, member, attempt: 0 },
            TaskRef { split: "train".to_owned(), index: 0 },
            Seed(0),
            Ending::Terminated,
        )
    }
}
