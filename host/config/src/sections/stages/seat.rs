//! `seats.NAME` of an `rl` stage: optimiser and algorithm flags of a seat's own model.

use gymkhana_algorithm::{Algorithm, Optimizer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::parse::wording;

/// Optimiser and algorithm flags of a `separate` seat's model, laid over those of the stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StageSeat {
    /// Algorithm flags that override the stage's, as those override the preset's. Flags that decide which episodes are
    /// compared must be the stage's: `group_by`, `shared_turns`, `replay`, and whether `surrogate` is over pairs.
    #[serde(skip_serializing_if = "Table::is_empty")]
    #[schemars(!skip_serializing_if, with = "Algorithm")]
    pub settings: Table,
    /// Keys of the optimiser that override the stage's.
    #[serde(skip_serializing_if = "Table::is_empty")]
    #[schemars(!skip_serializing_if, with = "Optimizer", extend("x-default" = "the stage's"))]
    pub optimizer: Table,
}

impl StageSeat {
    /// The stage's optimiser with the seat's keys.
    pub(super) fn optimizer_over(&self, of_stage: &Optimizer) -> Result<Optimizer, String> {
        let mut keys = Table::try_from(of_stage).map_err(|error| error.to_string())?;
        keys.extend(self.optimizer.clone());
        let refusal = |error: toml::de::Error| wording::explain(error.message(), |_| None);
        keys.clone().try_into().map_err(refusal)
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_algorithm::{Aggregation, RlSettings};

    use crate::RunFile;

    const GAME: &str = "success = \"environment.success\"\n[seats.o]\npolicy = \"separate\"\ntemperature = 0.5\n";

    /// A run file with a stage that sets these keys.
    fn parse(keys: &str) -> Result<RunFile, String> {
        let text = format!("{GAME}[[stages]]\nkind = \"rl\"\n{keys}\n");
        RunFile::parse(&text, "run.toml", &[]).map_err(|error| error.to_string())
    }

    fn settings(file: &RunFile, seat: Option<&str>) -> RlSettings {
        file.settings_of_model(file.stages[0].as_rl().unwrap(), seat).unwrap()
    }

    #[test]
    fn a_seat_overrides_single_keys_of_the_stage_and_its_preset() {
        let file = parse(
            "algorithm = \"grpo\"\noptimizer = { learning_rate = 1e-5, beta2 = 0.95 }\nsettings = { epochs = 3 }\n\
             seats.o = { optimizer = { learning_rate = 1e-6 }, settings = { kl = \"off\", aggregation = \"token\" } }",
        )
        .unwrap();
        let (policy, own) = (settings(&file, None), settings(&file, Some("o")));
        assert_eq!((policy.temperature, own.temperature), (1.0, 0.5));
        assert_eq!((policy.optimizer.learning_rate, own.optimizer.learning_rate), (1e-5, 1e-6));
        assert_eq!((policy.optimizer.beta2, own.optimizer.beta2), (0.95, 0.95));
        assert_eq!((policy.algorithm.epochs, own.algorithm.epochs), (3, 3));
        // The preset has a penalty (Shao et al. 2024), and averages over episodes.
        assert!(policy.algorithm.kl.is_some() && policy.algorithm.aggregation != Aggregation::Token);
        assert!(own.algorithm.kl.is_none() && own.algorithm.aggregation == Aggregation::Token);
        // Flags of the stage are written out; the seat's stay laid over them.
        let again = RunFile::parse(&file.resolved().unwrap(), "run.toml", &[]).unwrap();
        assert_eq!((settings(&again, None), settings(&again, Some("o"))), (policy, own));
    }

    #[test]
    fn mistakes_name_the_stage_and_the_seat() {
        let wrong = |keys: &str| parse(keys).unwrap_err();
        let no_model = wrong("seats.x.settings.epochs = 2");
        assert!(
            no_model.contains("stage `rl`: seats.x is set, but the seat has no model of its own\nhint: "),
            "{no_model}"
        );
        let flag = wrong("seats.o.settings.epoch = 2");
        assert!(flag.contains("stage `rl`, seat `o`: ") && flag.contains("did you mean `epochs`?"), "{flag}");
        let key = wrong("seats.o.optimizer.learning_rat = 1e-6");
        assert!(key.contains("stage `rl`, seat `o`: ") && key.contains("did you mean `learning_rate`?"), "{key}");
        let steps = wrong("seats.o.optimizer.warmup_steps = -1");
        assert!(steps.contains("stage `rl`: `seats.o.optimizer.warmup_steps` is -1"), "{steps}");
        let rate = wrong("seats.o.optimizer.learning_rate = -1.0");
        assert!(rate.contains("stage `rl`: `seats.o.optimizer.learning_rate` is -1.0; it must be above 0"), "{rate}");
        let groups = wrong("seats.o.settings.group_by = \"all\"");
        assert!(groups.contains("stage `rl`, seat `o`: settings.group_by differs from the stage's"), "{groups}");
        let teacher = wrong("seats.o.settings.credit.kind = \"teacher\"");
        assert!(teacher.contains("stage `rl`, seat `o`: "), "{teacher}");
        let misspelt = wrong("seats.o.setings.epochs = 2");
        assert!(misspelt.contains("did you mean `settings`?"), "{misspelt}");
    }

    #[test]
    fn a_trained_seat_samples_at_a_temperature_above_0() {
        let of = |policy: &str, temperature: &str| {
            let text = format!(
                "success = \"environment.success\"\npolicy.checkpoint = \"m\"\nseats.o = {{ policy = \"{policy}\", \
                 temperature = {temperature} }}\nstages = [{{ kind = \"rl\" }}]"
            );
            RunFile::parse(&text, "run.toml", &[]).map_err(|error| error.to_string())
        };
        assert!(of("frozen", "0.0").is_ok() && of("separate", "0.01").is_ok());
        assert!(of("separate", "0.0").unwrap_err().contains("seats.o.temperature"));
        let shared = of("shared", "0.5").unwrap_err();
        assert!(shared.contains("only a frozen or separate seat has a temperature of its own"), "{shared}");
    }
}
