//! Defaults of stages that train pretrained weights: those for random weights would destroy them.

use gymkhana_algorithm::Preset;
use toml::{Table, Value};

/// Learning rate of supervised fine-tuning, for all weights and for adapters.
const SFT_RATES: [f64; 2] = [1e-5, 1e-4];

/// Learning rate of reinforcement learning, for all weights and for adapters.
const RL_RATES: [f64; 2] = [1e-6, 1e-5];

/// Learning rate of a critic, which starts from the policy's weights and has no adapters.
const CRITIC_RATE: f64 = 1e-5;

/// Optimiser steps of warm-up; half of the `total_steps` of a schedule if they are fewer.
const WARM_UP: i64 = 10;

/// Writes the defaults into the stages of a run file with `policy.checkpoint`, where a stage lacks the key. A table of
/// another type than a run file needs stays as it is, for the parser to refuse.
pub(crate) fn write_out(file: &mut Table) {
    let policy = file.get("policy").and_then(Value::as_table);
    let Some(policy) = policy.filter(|policy| policy.contains_key("checkpoint")) else { return };
    // A server trains an adapter.
    let has_adapters = policy.contains_key("lora") || file.contains_key("trainer");
    let stages = file.get_mut("stages").and_then(Value::as_array_mut).into_iter().flatten();
    for stage in stages.filter_map(Value::as_table_mut) {
        let is = |kind: &str| stage.get("kind").and_then(Value::as_str) == Some(kind);
        let is_sft = is("sft");
        let is_supervised = is_sft || is("best-of-n");
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
