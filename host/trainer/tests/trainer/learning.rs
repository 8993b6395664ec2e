//! Training: demonstrations are learned, rewards rise, and a resumed run continues bit for bit.

use crate::common::{conversation, episode, figure, noise, penalty, request, segment, smallest, written};
use futures::future::join_all;
use gymkhana_policy::{Policy, Sampling};
use gymkhana_record::{Ending, EpisodeRecord, Seed, Segment};
use gymkhana_trainer::{
    Aggregation, Algorithm, Baseline, MomentFormat, Optimizer, Preset, RegressionOver, RlSettings, SettingError,
    SftSettings, StageModels, Surrogate, Trainer, TrainerError, TrainerSettings, Weighted,
};

fn trainer(seed: u64) -> Trainer {
    Trainer::create(&smallest(), &TrainerSettings { seed: Seed(seed), ..TrainerSettings::default() }).expect("a model")
}

/// Demonstrations: repeat the given byte twice, then end.
fn demonstrations(count: u64, seed: Seed) -> Vec<Segment> {
    let byte = |index: u64| noise(seed.child(index), 1)[0] % 16 + 65;
    (0..count).map(|index| segment(&[257, byte(index), 257], &written(&[byte(index), byte(index), 258]))).collect()
}

fn rate(learning_rate: f64) -> Optimizer {
    Optimizer { learning_rate, ..Optimizer::default() }
}

async fn learn(trainer: &Trainer, steps: u64) -> f64 {
    let settings = SftSettings { optimizer: rate(1e-2), ..SftSettings::default() };
    let mut loss = f64::NAN;
    for step in 0..steps {
        let batch = demonstrations(32, Seed(step));
        loss = figure(&trainer.sft_step(&batch, &settings).await.expect("a step"), "loss_sampled");
    }
    loss
}

#[tokio::test]
async fn demonstrations_are_learned() {
    let trainer = trainer(1);
    let loss = learn(&trainer, 80).await;
    assert!(loss < 0.1, "{loss}");
    assert_eq!(trainer.weight_version(), 80);
    for byte in [65, 72, 80] {
        let mut asked = request(byte, &[257, byte, 257], 5, Seed(0));
        asked.sampling = Sampling::GREEDY;
        let reply = trainer.generate(asked).await.expect("a reply");
        assert_eq!(reply.sampled.tokens, [byte, byte, 258]);
    }
}

/// Groups of eight replies to one prompt; the reward is the share of tokens for which `goal` is true.
async fn play(trainer: &Trainer, step: u64, goal: impl Fn(u32) -> bool + Copy) -> Vec<Vec<EpisodeRecord>> {
    let groups = (0..4_u32).map(|group| async move {
        let prompt = [257, 65 + group, 257];
        let members = (0..8_u32).map(|member| async move {
            let place = group * 8 + member;
            let mut asked = request(place, &prompt, 4, Seed(step).child(place));
            asked.stop = std::sync::Arc::from([]);
            let reply = trainer.generate(asked).await.expect("a reply").sampled;
            trainer.release(conversation(place));
            let reward = reply.tokens.iter().filter(|token| goal(**token)).count() as f64 / 4.0;
            episode(group, member, segment(&prompt, &reply), reward)
        });
        join_all(members).await
    });
    join_all(groups).await
}

fn mean_reward(groups: &[Vec<EpisodeRecord>]) -> f64 {
    let rewards: Vec<f64> = groups.iter().flatten().map(|episode| episode.rewards[0]).collect();
    rewards.iter().sum::<f64>() / rewards.len() as f64
}

/// Trains 40 steps on even bytes after a critic's warm-up. Any correct policy gradient passes: this shows that the preset
/// learns, and the golden numbers of the unit tests tell presets apart.
async fn follows_the_reward(name: &str) {
    let trainer = trainer(2);
    let flags = preset(name);
    trainer.begin_stage(flags.stage_models()).await.expect("a stage");
    let warmup = flags.critic.map_or(0, |critic| critic.warmup_steps);
    let held = flags.penalty().is_some_and(|kl| kl.beta >= 0.1);
    let first_pass = flags.minibatches == 1 && flags.replay.is_none();
    let settings = RlSettings { optimizer: rate(1e-2), algorithm: flags, ..RlSettings::default() };
    let even = |token: u32| token.is_multiple_of(2);
    let before = mean_reward(&play(&trainer, 1000, even).await);
    for step in 0..40 + warmup {
        let groups = play(&trainer, step, even).await;
        let metrics = trainer.rl_step(&groups, &settings).await.expect("a step");
        if first_pass {
            // In the first pass over on-policy samples every ratio is 1.
            assert_eq!(figure(&metrics, "clip_fraction"), 0.0, "{name}");
            assert!(figure(&metrics, "behaviour_divergence") < 1e-6, "{name}");
        }
        if step < warmup {
            // Only the critic is trained; the policy does not change.
            assert_eq!(figure(&metrics, "updates"), 0.0, "{name}");
            assert!(figure(&metrics, "value_loss") > 0.0, "{name}");
            assert_eq!(trainer.weight_version(), 0, "{name}");
        }
    }
    let after = mean_reward(&play(&trainer, 1000, even).await);
    // A strong divergence penalty keeps the policy near the reference.
    let least = if held { 0.7 } else { 0.9 };
    assert!(before < 0.6 && after > least, "{name}: {before} before, {after} after");
}

/// One test per preset, except `distill`, whose teacher ignores rewards.
macro_rules! presets_follow_the_reward {
    ($($test:ident: $name:literal,)*) => {
        mod follows_the_reward {
            $(
                #[tokio::test]
                async fn $test() {
                    super::follows_the_reward($name).await;
                }
            )*

            #[test]
            fn no_preset_is_missing() {
                let tested = [$($name),*];
                let missing = gymkhana_trainer::Preset::names().filter(|name| *name != "distill" && !tested.contains(name));
                assert_eq!(missing.count(), 0);
            }
        }
    };
}

presets_follow_the_reward! {
    aepo: "aepo",
    arpo: "arpo",
    cispo: "cispo",
    dapo: "dapo",
    dart: "dart",
    dpo: "dpo",
    dr_grpo: "dr-grpo",
    dr_mas: "dr-mas",
    epo: "epo",
    g_ra: "g-ra",
    gigpo: "gigpo",
    grpo: "grpo",
    grpo_roc: "grpo-roc",
    gspo: "gspo",
    igpo: "igpo",
    kto: "kto",
    lite_ppo: "lite-ppo",
    loop_: "loop",
    mars: "mars",
    mini_o3: "mini-o3",
    mt_grpo: "mt-grpo",
    otc: "otc",
    ppo: "ppo",
    reinforce_plus_plus: "reinforce++",
    rise: "rise",
    rloo: "rloo",
    scalinginter: "scalinginter",
    score: "score",
    score_first: "score-first",
    simpletir: "simpletir",
    spear: "spear",
    spiral_rae: "spiral-rae",
    step_ppo: "step-ppo",
    supo: "supo",
    vl_dac: "vl-dac",
}

/// On the first pass every log-ratio is 0, so the loss of a pair is the squared difference of its rewards.
#[tokio::test]
async fn regression_fits_differences_of_rewards() {
    let trainer = trainer(2);
    let algorithm = Algorithm {
        baseline: Baseline::None,
        ratio: None,
        surrogate: Surrogate::Regression { eta: 1.0, over: RegressionOver::Episode },
        aggregation: Aggregation::Constant,
        constant_tokens: Some(1),
        ..Algorithm::default()
    };
    let settings = RlSettings { optimizer: rate(1e-2), algorithm, ..RlSettings::default() };
    let groups = play(&trainer, 0, |token| token.is_multiple_of(2)).await;
    let mut expected = Vec::new();
    for group in &groups {
        for (index, one) in group.iter().enumerate() {
            expected.extend(group[index + 1..].iter().map(|other| (one.rewards[0] - other.rewards[0]).powi(2)));
        }
    }
    let expected = expected.iter().sum::<f64>() / expected.len() as f64;
    let first = figure(&trainer.rl_step(&groups, &settings).await.expect("a step"), "loss");
    assert!(expected > 0.0 && (first - expected).abs() < 1e-4, "{first} is not {expected}");
    for _ in 0..10 {
        trainer.rl_step(&groups, &settings).await.expect("a step");
    }
    let last = figure(&trainer.rl_step(&groups, &settings).await.expect("a step"), "loss");
    assert!(last < 0.9 * first, "{last} after {first}");
}

#[tokio::test]
async fn equal_groups_and_dropped_episodes_give_no_update() {
    let trainer = trainer(3);
    let mut groups = play(&trainer, 0, |_| true).await;
    for (member, episode) in groups[0].iter_mut().enumerate() {
        // If they counted, the rewards would differ.
        if member % 2 == 0 {
            (episode.ending, episode.rewards) = (Ending::Dropped, vec![0.0]);
        }
    }
    let metrics = trainer.rl_step(&groups, &RlSettings::default()).await.expect("a step");
    assert_eq!((figure(&metrics, "updates"), figure(&metrics, "tokens")), (0.0, 28.0 * 4.0));
    assert_eq!(trainer.weight_version(), 0);
}

#[tokio::test]
async fn micro_batches_do_not_change_the_result() {
    let mut figures = Vec::new();
    for micro_batch_tokens in [1, 7, 4096] {
        for aggregation in [Aggregation::Token, Aggregation::Sequence, Aggregation::Constant] {
            let trainer = trainer(4);
            let constant_tokens = (aggregation == Aggregation::Constant).then_some(16);
            let algorithm = Algorithm { aggregation, constant_tokens, entropy_bonus: 0.01, ..Algorithm::default() };
            let groups = play(&trainer, 5, |token| token.is_multiple_of(3)).await;
            let settings = RlSettings { algorithm, micro_batch_tokens, ..RlSettings::default() };
            let metrics = trainer.rl_step(&groups, &settings).await.expect("a step");
            figures.push((figure(&metrics, "loss"), figure(&metrics, "gradient_norm")));
        }
    }
    for (index, (loss, norm)) in figures.iter().enumerate() {
        let (expected_loss, expected_norm) = figures[index % 3];
        assert!((loss - expected_loss).abs() < 1e-6, "{figures:?}");
        assert!((norm / expected_norm - 1.0).abs() < 1e-4, "{figures:?}");
    }
}

/// 1 MiB holds the logits of about 1,000 tokens, so that the smaller chunks cut the batch of 3,000 tokens.
#[tokio::test]
async fn chunks_of_logits_do_not_change_the_result() {
    let mut figures = Vec::new();
    for logits_chunk_mib in [None, Some(1)] {
        let settings = TrainerSettings { seed: Seed(4), logits_chunk_mib, ..TrainerSettings::default() };
        let trainer = Trainer::create(&smallest(), &settings).expect("a model");
        let metrics = trainer.sft_step(&demonstrations(600, Seed(1)), &SftSettings::default()).await.expect("a step");
        figures.push((figure(&metrics, "loss"), figure(&metrics, "gradient_norm")));
    }
    let [(loss, norm), (chunked_loss, chunked_norm)] = figures[..] else { panic!("two runs") };
    assert!((loss - chunked_loss).abs() < 1e-6, "{figures:?}");
    assert!((norm / chunked_norm - 1.0).abs() < 1e-4, "{figures:?}");
    let none = TrainerSettings { logits_chunk_mib: Some(0), ..TrainerSettings::default() };
    assert!(none.check().expect_err("no logits").to_string().contains("logits_chunk_mib"));
}

/// Bytes of the weights, read from a checkpoint.
async fn weights(trainer: &Trainer) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    trainer.save(&folder.path().join("last"), &serde_json::Value::Null).await.expect("saved");
    std::fs::read(folder.path().join("last/model.safetensors")).expect("weights")
}

fn preset(name: &str) -> Algorithm {
    Preset::named(name).and_then(|preset| preset.algorithm()).expect("a preset")
}

/// Both trainers train on the same recorded episodes. State that the presets carry from step to step: a reference
/// policy and the order of minibatches, a critic, a replay buffer, entropies, averages of seats, successes of tasks. Every
/// other one has moments of 8 bits.
#[tokio::test]
async fn a_resumed_run_continues_bit_for_bit() {
    let ordered = Algorithm { minibatches: 3, epochs: 2, kl: Some(penalty(0.05)), ..Algorithm::default() };
    let carrying = ["ppo", "spear", "epo", "spiral-rae", "dart"].map(preset);
    for (index, algorithm) in std::iter::once(ordered).chain(carrying).enumerate() {
        let moments = if index % 2 == 1 { MomentFormat::Int8 } else { MomentFormat::Float32 };
        let shown = format!("{algorithm:?}, {moments:?}");
        let optimizer = Optimizer { moments, ..rate(1e-3) };
        let settings = RlSettings { optimizer, algorithm, ..RlSettings::default() };
        let first = trainer(5);
        learn(&first, 3).await;
        first.begin_stage(settings.algorithm.stage_models()).await.expect("a stage");
        let mut batches = vec![];
        for step in 0..4 {
            batches.push(play(&first, step, |token| token.is_multiple_of(2)).await);
        }
        for batch in &batches[..2] {
            first.rl_step(batch, &settings).await.expect("a step");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let position = serde_json::json!({ "stage": 1, "step": 1 });
        first.save(&folder.path().join("1"), &position).await.expect("saved");
        let resumed =
            Trainer::open(&folder.path().join("1"), &TrainerSettings { seed: Seed(5), ..TrainerSettings::default() });
        let resumed = resumed.expect("whole");
        let state = std::fs::read(folder.path().join("1/trainer/state.safetensors")).expect("a state");
        let names = String::from_utf8_lossy(&state);
        // The policy of `ppo` does not move yet, but its critic does.
        assert_eq!(names.contains("mean-codes.model.norm.weight\""), moments == MomentFormat::Int8);
        assert_eq!(resumed.position(), Some(&position));
        assert_eq!(resumed.weight_version(), first.weight_version());
        for batch in &batches[2..] {
            let metrics = first.rl_step(batch, &settings).await.expect("a step");
            assert_eq!(resumed.rl_step(batch, &settings).await.expect("a step"), metrics, "{shown}");
        }
        assert_eq!(weights(&resumed).await, weights(&first).await, "{shown}");
    }
}

#[tokio::test]
async fn unusable_data_and_settings_are_refused_by_name() {
    let trainer = trainer(6);
    let foreign = [segment(&[1, 2], &written(&[264]))];
    let error = trainer.sft_step(&foreign, &SftSettings::default()).await.expect_err("a foreign token");
    assert!(error.to_string().contains("demonstration 0") && error.to_string().contains("264"), "{error}");
    let long = [segment(&[1; 200], &written(&[2]))];
    let error = trainer.sft_step(&long, &SftSettings::default()).await.expect_err("too long");
    assert!(error.to_string().contains("`context`"), "{error}");
    let unmarked = [segment(&[1, 2], &written(&[]))];
    let error = trainer.sft_step(&unmarked, &SftSettings::default()).await.expect_err("no sampled token");
    assert!(matches!(&error, TrainerError::Data(error) if error.problem.contains("marked as sampled")), "{error}");
    let groups = play(&trainer, 0, |token| token.is_multiple_of(2)).await;
    let pulled =
        RlSettings { algorithm: Algorithm { kl: Some(penalty(0.1)), ..Algorithm::default() }, ..RlSettings::default() };
    let error = trainer.rl_step(&groups, &pulled).await.expect_err("no reference");
    assert!(matches!(error, TrainerError::Setting(SettingError::Range { key: "algorithm", .. })), "{error}");
    let mut broken = groups;
    let mut columns = std::mem::take(&mut broken[1][2].segments[0]).into_columns();
    columns.log_probs[4] = f32::NEG_INFINITY;
    broken[1][2].segments[0] = Segment::from_columns(columns).expect("columns of one length");
    let optimizer = Optimizer { max_skipped_steps: 2, ..RlSettings::default().optimizer };
    let settings = RlSettings { optimizer, ..RlSettings::default() };
    for _ in 0..2 {
        let metrics = trainer.rl_step(&broken, &settings).await.expect("a skipped step");
        assert_eq!((figure(&metrics, "skipped_updates"), figure(&metrics, "updates")), (1.0, 0.0));
        assert!(metrics.iter().all(|(_, value)| value.is_finite()), "{metrics:?}");
    }
    let error = trainer.rl_step(&broken, &settings).await.expect_err("the third in a row");
    assert!(matches!(error, TrainerError::NotFinite { skipped: 2, .. }), "{error}");
    assert_eq!(trainer.weight_version(), 0, "no failed step moves the weights");
}

/// The skipped steps of a checkpoint count, and a step that is taken ends the row.
#[tokio::test]
async fn skipped_steps_are_counted_in_a_row() {
    let first = trainer(6);
    let groups = play(&first, 0, |token| token.is_multiple_of(2)).await;
    let mut broken = groups.clone();
    let mut columns = std::mem::take(&mut broken[1][2].segments[0]).into_columns();
    columns.log_probs[4] = f32::NEG_INFINITY;
    broken[1][2].segments[0] = Segment::from_columns(columns).expect("columns of one length");
    let optimizer = Optimizer { max_skipped_steps: 1, ..RlSettings::default().optimizer };
    let settings = RlSettings { optimizer, ..RlSettings::default() };
    for batch in [&broken, &groups, &broken] {
        first.rl_step(batch, &settings).await.expect("a step that is taken or skipped");
    }
    assert_eq!(first.weight_version(), 1);
    let folder = tempfile::tempdir().expect("a folder");
    first.save(&folder.path().join("1"), &serde_json::Value::Null).await.expect("saved");
    let resumed = Trainer::open(&folder.path().join("1"), &TrainerSettings::default()).expect("a checkpoint");
    let error = resumed.rl_step(&broken, &settings).await.expect_err("the second in a row");
    assert!(matches!(error, TrainerError::NotFinite { skipped: 1, .. }), "{error}");
}

/// The teacher has learned to repeat a letter; the student learns it only from the teacher's probabilities.
#[tokio::test]
async fn a_student_approaches_its_teacher() {
    let teacher = trainer(7);
    learn(&teacher, 60).await;
    let folder = tempfile::tempdir().expect("a folder");
    teacher.save(&folder.path().join("teacher"), &serde_json::Value::Null).await.expect("saved");
    let student = trainer(8);
    let flags = preset("distill");
    let settings = RlSettings { optimizer: rate(3e-3), algorithm: flags, ..RlSettings::default() };
    let untaught = student.rl_step(&play(&student, 0, |_| true).await, &settings).await.expect_err("no teacher");
    assert!(untaught.to_string().contains("teacher"), "{untaught}");
    let models = StageModels { teacher: Some(folder.path().join("teacher")), ..settings.algorithm.stage_models() };
    student.begin_stage(models).await.expect("a stage");
    let mut gaps = vec![];
    for step in 0..60 {
        let metrics = student.rl_step(&play(&student, step, |_| true).await, &settings).await.expect("a step");
        gaps.push(-figure(&metrics, "advantage_mean"));
    }
    let mean = |gaps: &[f64]| gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!(mean(&gaps[50..]) < 0.8 * mean(&gaps[..5]), "{gaps:?}");
}

/// The loss on demonstrations with the weights 3 and 1 is the mean of their losses with these weights; a demonstration of
/// weight 0 changes nothing.
#[tokio::test]
async fn demonstrations_have_weights() {
    // A learning rate of almost 0 leaves the weights in place, so that all losses are those of one model.
    let optimizer = Optimizer { learning_rate: 1e-30, ..Optimizer::default() };
    let settings = SftSettings { optimizer, other_tokens: 0.0, ..SftSettings::default() };
    let trainer = trainer(6);
    let segments = [segment(&[1, 2], &written(&[3, 4, 5])), segment(&[7], &written(&[8]))];
    let loss = async |weights: [f64; 2]| {
        let weighted: Vec<Weighted<'_>> =
            segments.iter().zip(weights).map(|(segment, weight)| Weighted { segment, weight }).collect();
        figure(&trainer.sft_step_on(&weighted, &settings).await.expect("a step"), "loss")
    };
    let (first, second) = (loss([1.0, 0.0]).await, loss([0.0, 2.0]).await);
    assert!((first - second).abs() > 1e-3, "{first} {second}");
    // 3 tokens of weight 3 and 1 token of weight 1.
    let expected = (9.0 * first + second) / 10.0;
    let both = loss([3.0, 1.0]).await;
    assert!((both - expected).abs() < 1e-5, "{both} {expected}");
    let unweighted = (3.0 * first + second) / 4.0;
    let plain = figure(&trainer.sft_step(&segments, &settings).await.expect("a step"), "loss");
    assert!((plain - unweighted).abs() < 1e-5, "{plain} {unweighted}");
}
