//! Defaults of stages that depend on their kind and on where the weights come from: those for random weights would destroy
//! pretrained ones.

use gymkhana_algorithm::{Preset, RlSettings};
use toml::{Table, Value};

use crate::RunFile;
use crate::sections::{RlStage, Stage, TrainerSection};

/// Learning rate of supervised fine-tuning, for all weights and for adapters.
const SFT_RATES: [f64; 2] = [1e-5, 1e-4];

/// Learning rate of reinforcement learning, for all weights and for adapters.
const RL_RATES: [f64; 2] = [1e-6, 1e-5];

/// Learning rate of a critic, which starts from the policy's weights and has no adapters.
const CRITIC_RATE: f64 = 1e-5;

/// Optimiser steps of warm-up; half of the `total_steps` of a schedule if they are fewer.
const WARM_UP: i64 = 10;

/// Writes the defaults into the stages of a run file, where a stage lacks the key. A table of another type than a run file
/// needs stays as it is, for the parser to refuse.
pub(crate) fn write_out(file: &mut Table) {
    let policy = file.get("policy").and_then(Value::as_table);
    let Some(policy) = policy.filter(|policy| policy.contains_key("checkpoint")) else {
        return write_out_random(file);
    };
    // A server trains an adapter.
    let kind = file.get("trainer").and_then(|trainer| trainer.get("kind")).and_then(Value::as_str);
    let has_adapters = policy.contains_key("lora") || kind == Some("tinker");
    for stage in stages(file) {
        let is_sft = is_kind(stage, "sft");
        let is_supervised = is_supervised(stage);
        let [all_weights, adapters] = if is_supervised { SFT_RATES } else { RL_RATES };
        let rate = if has_adapters { adapters } else { all_weights };
        if is_sft {
            stage.entry("other_tokens").or_insert(Value::Float(0.0));
        } else if !is_supervised {
            write_out_critic_rate(stage);
        }
        let optimizer = stage.entry("optimizer").or_insert_with(|| Value::Table(Table::new()));
        let Some(optimizer) = optimizer.as_table_mut() else { continue };
        let half = optimizer.get("total_steps").and_then(Value::as_integer).map_or(WARM_UP, |steps| steps / 2);
        optimizer.entry("learning_rate").or_insert(Value::Float(rate));
        optimizer.entry("warmup_steps").or_insert(Value::Integer(half.clamp(0, WARM_UP)));
    }
}

/// Writes the learning rate of reinforcement learning into optimisers of a model with random weights that lack one.
fn write_out_random(file: &mut Table) {
    for stage in stages(file).filter(|stage| !is_supervised(stage)) {
        if let Some(optimizer) = stage.get_mut("optimizer").and_then(Value::as_table_mut) {
            optimizer.entry("learning_rate").or_insert(Value::Float(RlSettings::default().optimizer.learning_rate));
        }
    }
}

fn stages(file: &mut Table) -> impl Iterator<Item = &mut Table> {
    file.get_mut("stages").and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_table_mut)
}

fn is_kind(stage: &Table, kind: &str) -> bool {
    stage.get("kind").and_then(Value::as_str) == Some(kind)
}

fn is_supervised(stage: &Table) -> bool {
    is_kind(stage, "sft") || is_kind(stage, "best-of-n")
}

impl RunFile {
    /// Defaults of its `rl` stages that keep what the policy does well, one line each with the reason. Values that the run
    /// file sets otherwise are left out.
    #[must_use]
    pub fn reasons_of_defaults(&self) -> Vec<String> {
        let is_server = matches!(self.trainer, Some(TrainerSection::Tinker(_)));
        let has_adapters = self.policy.lora.is_some() || is_server;
        let rate = match &self.policy.checkpoint {
            Some(_) => RL_RATES[usize::from(has_adapters)],
            None => RlSettings::default().optimizer.learning_rate,
        };
        let stages = self.stages.iter().filter_map(Stage::as_rl);
        let mut all = vec![];
        for stage in stages {
            // A server takes whole steps, and so do losses over whole episodes.
            let is_bounded = !is_server && stage.settings().is_ok_and(|settings| settings.step_divergence.is_some());
            all.extend(reasons(stage, rate, is_bounded, self.policy.checkpoint.is_some()));
        }
        all
    }
}

/// The reasons of one stage, with the default of its learning rate. `is_bounded` says whether its steps have a bound.
fn reasons(stage: &RlStage, rate: f64, is_bounded: bool, is_pretrained: bool) -> Vec<String> {
    let optimizer = &stage.optimizer;
    let why = if is_pretrained {
        "pretrained weights forget at higher rates"
    } else {
        "higher rates forget more than they learn in few steps, measured with half a million weights"
    };
    let found = [
        (
            is_bounded && stage.step_divergence == RlStage::default().step_divergence,
            format!(
                "step_divergence = {:e}: an AdamW step is as long as the learning rate sets, however small the gradient; \
                 unbounded steps made nearly solved tasks fail",
                stage.step_divergence
            ),
        ),
        (optimizer.learning_rate == rate, format!("optimizer.learning_rate = {rate:e}: {why}")),
        (
            is_pretrained && optimizer.warmup_steps == WARM_UP.unsigned_abs(),
            format!("optimizer.warmup_steps = {WARM_UP}: AdamW scales its first steps by too few gradients"),
        ),
    ];
    let line = |reason: String| format!("default of stage `{}`: {reason}", stage.name);
    found.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| line(reason)).collect()
}

/// Writes the critic's learning rate into the flags of a stage whose algorithm has a critic, instead of the preset's.
fn write_out_critic_rate(stage: &mut Table) {
    let text = |key| stage.get(key).and_then(Value::as_str);
    let name = text("algorithm").or(text("kind").filter(|kind| *kind != "rl")).unwrap_or("loop");
    let in_preset = Preset::named(name).is_ok_and(|preset| preset.flags().contains_key("critic"));
    let own = stage.get("settings").and_then(|settings| settings.get("critic"));
    if !own.map_or(in_preset, Value::is_table) {
        return;
    }
    let settings = stage.entry("settings").or_insert_with(|| Value::Table(Table::new())).as_table_mut();
    let critic = settings.map(|flags| flags.entry("critic").or_insert_with(|| Value::Table(Table::new())));
    if let Some(critic) = critic.and_then(Value::as_table_mut) {
        critic.entry("learning_rate").or_insert(Value::Float(CRITIC_RATE));
    }
}

#[cfg(test)]
mod tests {
    use crate::{RunFile, Stage};

    /// Learning rate, steps of warm-up, and weight of other tokens of each stage.
    fn defaults(policy: &str, stages: &str) -> Vec<(f64, u64, Option<f64>)> {
        let text = format!("success = \"environment.success\"\n{policy}\n{stages}");
        let file = RunFile::parse(&text, "run.toml", &[]).unwrap();
        let of = |stage: &Stage| match stage {
            Stage::Sft(stage) => {
                (stage.optimizer.learning_rate, stage.optimizer.warmup_steps, Some(stage.other_tokens))
            }
            Stage::BestOfN(stage) => (stage.optimizer.learning_rate, stage.optimizer.warmup_steps, None),
            Stage::Rl(stage) => (stage.optimizer.learning_rate, stage.optimizer.warmup_steps, None),
        };
        file.stages.iter().map(of).collect()
    }

    const STAGES: &str = "stages = [{ kind = \"sft\" }, { kind = \"rl\" }, { kind = \"best-of-n\" }]";

    #[test]
    fn stages_of_pretrained_weights_have_their_own_defaults() {
        assert_eq!(defaults("", STAGES), [(1e-3, 0, Some(0.1)), (1e-4, 0, None), (1e-3, 0, None)]);
        let weights = "policy.checkpoint = \"model\"";
        assert_eq!(defaults(weights, STAGES), [(1e-5, 10, Some(0.0)), (1e-6, 10, None), (1e-5, 10, None)]);
        let adapters = "policy = { checkpoint = \"model\", lora = { rank = 4, alpha = 8.0 } }";
        assert_eq!(defaults(adapters, STAGES), [(1e-4, 10, Some(0.0)), (1e-5, 10, None), (1e-4, 10, None)]);
        let server = format!("{weights}\ntrainer = {{ kind = \"tinker\", url = \"http://127.0.0.1:1\" }}");
        assert_eq!(defaults(&server, STAGES), [(1e-4, 10, Some(0.0)), (1e-5, 10, None), (1e-4, 10, None)]);
    }

    /// An optimiser that sets another key keeps the rate of its kind of stage.
    #[test]
    fn an_optimizer_without_a_rate_has_that_of_its_kind() {
        let stages = "stages = [{ kind = \"sft\", optimizer = { beta2 = 0.95 } }, { kind = \"rl\", optimizer = { beta2 = \
                      0.95 } }, { kind = \"dpo\", optimizer = { learning_rate = 3e-4 } }]";
        assert_eq!(defaults("", stages), [(1e-3, 0, Some(0.1)), (1e-4, 0, None), (3e-4, 0, None)]);
    }

    #[test]
    fn defaults_name_their_reasons_unless_the_run_file_sets_them() {
        let reasons = |policy: &str, keys: &str| {
            let text = format!("success = \"environment.success\"\n{policy}\nstages = [{{ kind = \"rl\"{keys} }}]");
            RunFile::parse(&text, "run.toml", &[]).unwrap().reasons_of_defaults()
        };
        let of_random = reasons("", "");
        assert_eq!(of_random.len(), 2, "{of_random:?}");
        assert!(of_random[0].starts_with("default of stage `rl`: step_divergence = 1e-4: "), "{of_random:?}");
        assert!(of_random[1].starts_with("default of stage `rl`: optimizer.learning_rate = 1e-4: "), "{of_random:?}");
        let of_pretrained = reasons("policy.checkpoint = \"model\"", "");
        assert!(
            of_pretrained[1].contains("learning_rate = 1e-6: ") && of_pretrained[2].contains("warmup_steps = 10: ")
        );
        let of_pairs =
            RunFile::parse("success = \"environment.success\"\nstages = [{ kind = \"dpo\" }]", "run.toml", &[]);
        assert!(of_pairs.unwrap().reasons_of_defaults().iter().all(|reason| !reason.contains("step_divergence")));
        let own = ", step_divergence = 0.0, optimizer = { learning_rate = 3e-4 }";
        assert!(reasons("", own).is_empty());
    }

    #[test]
    fn keys_of_a_stage_stay() {
        let stages = "stages = [{ kind = \"sft\", other_tokens = 0.5, optimizer = { learning_rate = 3e-4 } }, \
                      { kind = \"rl\", optimizer = { warmup_steps = 0 } }]";
        let weights = "policy.checkpoint = \"model\"";
        assert_eq!(defaults(weights, stages), [(3e-4, 10, Some(0.5)), (1e-6, 0, None)]);
        let short = "stages = [{ kind = \"sft\", steps = 8, optimizer = { schedule = \"linear\", total_steps = 8 } }]";
        assert_eq!(defaults(weights, short), [(1e-5, 4, Some(0.0))]);
        // What the resolved file holds is read back unchanged.
        let text = format!("success = \"environment.success\"\n{weights}\n{STAGES}");
        let file = RunFile::parse(&text, "run.toml", &[]).unwrap();
        assert_eq!(RunFile::parse(&file.resolved().unwrap(), "run.toml", &[]).unwrap(), file);
    }

    /// Learning rate of the only stage's critic.
    fn critic_rate(policy: &str, stage: &str) -> Option<f64> {
        let text = format!("success = \"environment.success\"\n{policy}\nstages = [{stage}]");
        let file = RunFile::parse(&text, "run.toml", &[]).unwrap();
        let Stage::Rl(stage) = &file.stages[0] else { panic!("no `rl` stage") };
        stage.settings().unwrap().algorithm.critic.map(|critic| critic.learning_rate)
    }

    #[test]
    fn critics_of_pretrained_weights_have_their_own_rate() {
        let ppo = "{ kind = \"rl\", algorithm = \"ppo\" }";
        let own = "{ kind = \"rl\", algorithm = \"ppo\", settings = { critic = { learning_rate = 3e-4 } } }";
        let other_key = "{ kind = \"rl\", algorithm = \"ppo\", settings = { critic = { lambda = 1.0 } } }";
        let off = "{ kind = \"rl\", algorithm = \"ppo\", settings = { critic = \"off\", baseline = \"group-mean\" } }";
        let weights = "policy.checkpoint = \"model\"";
        assert_eq!(critic_rate("", ppo), Some(1e-4));
        assert_eq!(critic_rate(weights, ppo), Some(1e-5));
        assert_eq!(critic_rate(weights, other_key), Some(1e-5));
        assert_eq!(critic_rate(weights, own), Some(3e-4));
        assert_eq!(critic_rate(weights, off), None);
        assert_eq!(critic_rate(weights, "{ kind = \"rl\" }"), None);
    }

    #[test]
    fn wrong_types_are_refused_as_before() {
        let text = "success = \"environment.success\"\npolicy.checkpoint = \"model\"\nstages = [{ kind = \"sft\", optimizer = 3 }]";
        let error = RunFile::parse(text, "run.toml", &[]).unwrap_err().to_string();
        assert!(error.contains("optimizer"), "{error}");
    }
}
