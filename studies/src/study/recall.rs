//! Recall of a letter after the context was summarised: a summary that the answer's reward trains, against one that it
//! does not train (SUPO).

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::load;
use gymkhana_chat::{ChatFiles, ChatFormat};
use gymkhana_policy::{GenerateRequest, Sampling, ScriptedPolicy};
use gymkhana_record::{EpisodeId, EpisodeRecord, Phase, Seed, Segment, TaskRef};
use gymkhana_rollout::{
    Actor, BoundPlugin, ContextStrategy, DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop, EpisodePlan, Limits,
    PluginSet, ProvokedReward, RewardSum, Rollout, Summary,
};
use gymkhana_sandbox::{Sandbox, SandboxConfig};
use gymkhana_trainer::{Optimizer, SftSettings, Trainer};

use super::{Row, Study};
use crate::table::{GROUPS, MEMBERS, preset, reward, settings, trainer};

pub const STUDY: Study = Study { figure: "recalled", marks: &[CHANCE], arms: &["trained", "untrained"] };

const STEPS: u64 = 200;
/// Steps of demonstrations, after which a policy notes some letter and answers with the letter that it noted.
const DEMONSTRATED: u64 = 40;
const LEARNING_RATE: f64 = 2e-3;
/// Entropy bonus without which the policy may note one letter in all episodes, where no group has a signal.
const ENTROPY_BONUS: f64 = 0.003;
/// Number of letters in the environment.
const LETTERS: u64 = 2;
/// Success rate of guessing.
const CHANCE: f64 = 0.5;
/// Size of the context in tokens above which the host asks for a summary: between the context that begins with a
/// summary and the one that holds the letter's observation.
const FULL: usize = 64;
const INSTRUCTION: &str = "Note:";

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let trains_notes = match arm {
        "trained" => true,
        "untrained" => false,
        other => bail!("unknown arm `{other}`"),
    };
    let mut flags = preset("supo")?;
    flags.entropy_bonus = ENTROPY_BONUS;
    let trainer = trainer(seed)?;
    let rollout = rollout(&trainer).await?;
    demonstrate(&trainer, &rollout, seed.child("demonstrations"), effort.pick(DEMONSTRATED, 1)).await?;
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, LEARNING_RATE);
    let mut rows = vec![];
    for step in 0..effort.pick(STEPS, 2) {
        let mut groups = play(&rollout, Actor::Policy(&trainer), seed.child("play").child(step)).await?;
        let right_notes = groups.iter().flatten().filter(|episode| note_is_letter(episode)).count();
        let share = right_notes as f64 / f64::from(GROUPS * MEMBERS);
        rows.push(Row { step, figures: vec![("recalled", reward(&groups)), ("letter noted", share)] });
        if !trains_notes {
            for episode in groups.iter_mut().flatten() {
                leave_notes_untrained(episode)?;
            }
        }
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

/// A rollout of the guest `guest-recall` with replies of one token and the host's strategy `summary`.
async fn rollout(trainer: &Trainer) -> Result<Rollout> {
    let sandbox = Sandbox::new(&SandboxConfig::default())?;
    let environment = BoundPlugin { plugin: load(&sandbox, "guest-recall")?, options: vec![] };
    let plugins = PluginSet::assemble(environment, vec![], vec![]).await?;
    let limits = Limits {
        turns: 8,
        context_tokens: 128,
        calls: 1,
        time: std::time::Duration::from_secs(600),
        reply_tokens: 1,
        reasoning_tokens: None,
        episode_bytes: DEFAULT_EPISODE_BYTES,
        live_bytes: DEFAULT_LIVE_BYTES,
        early_stop: EarlyStop::default(),
    };
    let sum =
        RewardSum { environment: 1.0.into(), provoked: ProvokedReward::Least, success: "environment.success".parse()? };
    let summary = Summary { tokens: FULL, instruction: INSTRUCTION.to_owned() };
    Ok(Rollout::new(plugins, chat(trainer)?, limits, sum, None, 0).with_context(ContextStrategy::Summary(summary))?)
}

/// The tiny model's chat format.
fn chat(trainer: &Trainer) -> Result<ChatFormat> {
    let text = |wanted: &str| {
        let found = trainer.files().iter().find(|(name, _)| *name == wanted);
        found.map(|(_, text)| text.to_owned())
    };
    let files = ChatFiles {
        tokenizer: text("tokenizer.json").context("the tiny model has a tokenizer")?,
        config: text("tokenizer_config.json").context("the tiny model has a tokenizer's config")?,
        template: text("chat_template.jinja"),
        ends: vec![],
    };
    Ok(ChatFormat::new(&files)?)
}

/// Plays all groups of a step concurrently. The members of a group have the same task, and every second group the
/// same letter.
async fn play(rollout: &Rollout, actor: Actor<'_>, seed: Seed) -> Result<Vec<Vec<EpisodeRecord>>> {
    let groups = (0..GROUPS).map(|group| {
        let seed = seed.child(group);
        let plan = |member| EpisodePlan {
            id: EpisodeId { stage: 0, phase: Phase::Train, step: 0, group, member, attempt: 0 },
            task: TaskRef { split: "train".to_owned(), index: u64::from(group) % LETTERS },
            seed: seed.child(member),
            sampling: Sampling::at(1.0),
            place: group * MEMBERS + member,
            turns: None,
            guidance: None,
        };
        rollout.run_group((0..MEMBERS).map(plan).collect(), actor)
    });
    Ok(try_join_all(groups).await?)
}

/// Trains the form of a summary and its use, not its content: a script notes a random letter and answers with it.
async fn demonstrate(trainer: &Trainer, rollout: &Rollout, seed: Seed, steps: u64) -> Result<()> {
    let optimizer = Optimizer { learning_rate: 3e-3, ..Optimizer::default() };
    let settings = SftSettings { optimizer, ..SftSettings::default() };
    let script = ScriptedPolicy::new(128, scripted);
    for step in 0..steps {
        let groups = play(rollout, Actor::Policy(&script), seed.child(step)).await?;
        let segments: Vec<Segment> = groups.into_iter().flatten().flat_map(|episode| episode.segments).collect();
        trainer.sft_step(&segments, &settings).await?;
    }
    Ok(())
}

/// Reply of the script: the noted letter, a random letter as note, or a full stop before the letter is shown.
fn scripted(request: &GenerateRequest) -> Vec<u32> {
    let line_end = request.tokens.iter().rposition(|token| *token == u32::from(b'\n'));
    let noted = line_end.and_then(|at| request.tokens.get(at + 1));
    let instruction: Vec<u32> = INSTRUCTION.bytes().map(u32::from).collect();
    let asked = request.tokens.windows(instruction.len()).any(|shown| *shown == *instruction);
    vec![match noted {
        Some(letter) => *letter,
        None if asked => u32::from(b'A') + request.seed.stream().below(LETTERS) as u32,
        None => u32::from(b'.'),
    }]
}

/// Whether the episode's note is its task's letter itself.
fn note_is_letter(episode: &EpisodeRecord) -> bool {
    let letter = if episode.task.index == 0 { "A" } else { "B" };
    episode.policy_turns.iter().any(|turn| turn.note.as_deref() == Some(letter))
}

/// Marks the tokens of notes as given, so that no gradient passes through them.
fn leave_notes_untrained(episode: &mut EpisodeRecord) -> Result<()> {
    let turns = episode.policy_turns.iter();
    let notes: Vec<u32> = turns.filter(|taken| taken.note.is_some()).map(|taken| taken.turn).collect();
    for segment in &mut episode.segments {
        let mut columns = std::mem::take(segment).into_columns();
        for at in (0..columns.tokens.len()).filter(|at| notes.contains(&columns.turns[*at])).collect::<Vec<_>>() {
            columns.sampled[at] = false;
            columns.log_probs[at] = 0.0;
            columns.entropies[at] = 0.0;
            columns.versions[at] = 0;
        }
        *segment = Segment::from_columns(columns)?;
    }
    Ok(())
}
