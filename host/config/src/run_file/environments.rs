//! The environments of a run as one list, whichever form the run file has: `[environment]` or `[[environments]]`.

use std::collections::BTreeSet;

use gymkhana_nearest::did_you_mean;
use gymkhana_rules::SamplingPlan;
use toml::Table;

use super::RunFile;
use crate::episode_rules::EpisodeRules;
use crate::error::RunFileError;
use crate::sections::{EnvironmentEntry, EnvironmentSection, LimitsSection, SamplerSection, Stage, WhenFailing};

/// An environment of a run with the rules of its episodes.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentSettings {
    /// Name in `[[environments]]`; absent for `[environment]`.
    pub name: Option<String>,
    /// The plugin; absent for `[environment]`, where it is the only environment of `--plugins`.
    pub plugin: Option<String>,
    /// Share of the groups of each step, relative to the shares of the others.
    pub share: f64,
    /// Reaction to more failed episodes than the limit.
    pub when_failing: WhenFailing,
    /// Names of its tools and rewards; absent if it has all those of the run.
    pub plugins: Option<BTreeSet<String>>,
    /// Sampler of its training tasks.
    pub sampler: SamplerSection,
    /// Number of its held-out tasks.
    pub eval_tasks: u64,
    /// Rules of its episodes.
    pub rules: EpisodeRules,
}

impl RunFile {
    /// The environments in the order of the file.
    #[must_use]
    pub fn environment_settings(&self) -> Vec<EnvironmentSettings> {
        if self.environments.is_empty() {
            return vec![EnvironmentSettings {
                name: None,
                plugin: None,
                share: 1.0,
                when_failing: WhenFailing::Stop,
                plugins: None,
                sampler: self.sampler.clone(),
                eval_tasks: self.evaluation.tasks,
                rules: self.rules.clone(),
            }];
        }
        self.environments.iter().map(|entry| self.rules_of(entry)).collect()
    }

    /// The rules of the run with the sections that an environment replaces.
    fn rules_of(&self, entry: &EnvironmentEntry) -> EnvironmentSettings {
        let mut rules = EpisodeRules { environment: entry.section(), ..self.rules.clone() };
        if let Some(success) = &entry.success {
            rules.success.clone_from(success);
        }
        for (name, own) in entry.plugins.iter().flatten() {
            own.lay_over(rules.plugins.entry(name.clone()).or_default());
        }
        if let Some(limits) = &entry.limits {
            rules.limits = LimitsSection { live_mib: rules.limits.live_mib, ..limits.clone() };
        }
        if let Some(context) = &entry.context {
            rules.context = context.clone();
        }
        EnvironmentSettings {
            name: Some(entry.name.clone()),
            plugin: Some(entry.plugin.clone()),
            share: entry.share,
            when_failing: entry.when_failing,
            plugins: entry.plugins.as_ref().map(|own| own.keys().cloned().collect()),
            sampler: entry.sampler.as_ref().unwrap_or(&self.sampler).clone(),
            eval_tasks: entry.eval_tasks.unwrap_or(self.evaluation.tasks),
            rules,
        }
    }

    /// Names of the wrappers of all environments.
    #[must_use]
    pub fn wrappers(&self) -> BTreeSet<String> {
        let several = self.environments.iter().flat_map(|entry| &entry.wrap);
        self.rules.environment.wrap.iter().chain(several).map(|entry| entry.plugin.clone()).collect()
    }

    /// Whether an evaluation has any task.
    #[must_use]
    pub fn evaluates(&self) -> bool {
        self.environment_settings().iter().any(|own| own.eval_tasks > 0)
    }

    /// Checks that a model of this context length, in tokens, has room for the contexts of all environments.
    ///
    /// # Errors
    /// If an environment exceeds the model's context length.
    pub fn check_model(&self, context: usize) -> Result<(), RunFileError> {
        for EnvironmentEntry { name, limits, .. } in &self.environments {
            let checked = limits.as_ref().map_or(Ok(()), |limits| limits.check_model(context));
            checked.map_err(|error| error.below(&format!("environments.{name}")))?;
        }
        self.rules.limits.check_model(context)
    }

    /// Sets the context length of all environments where it is unset, so that a replay needs no model.
    ///
    /// # Errors
    /// As [`RunFile::check_model`].
    pub fn fit_model(&mut self, context: usize) -> Result<(), RunFileError> {
        self.check_model(context)?;
        let own = self.environments.iter_mut().filter_map(|entry| entry.limits.as_mut());
        own.chain([&mut self.rules.limits]).try_for_each(|limits| limits.fit_model(context))
    }

    /// The largest context of all environments, in tokens; `None` if one has the length of the model.
    #[must_use]
    pub fn context_tokens(&self) -> Option<usize> {
        let contexts = self.environment_settings().into_iter().map(|own| own.rules.limits.context_tokens);
        contexts.collect::<Option<Vec<usize>>>()?.into_iter().max()
    }

    /// Names environments after their plugins where the file gives no name.
    pub(crate) fn write_out_environments(&mut self) {
        for entry in &mut self.environments {
            if entry.name.is_empty() {
                entry.name.clone_from(&entry.plugin);
            }
        }
    }

    /// Rejects environments that contradict each other or a stage.
    pub(crate) fn check_environments(&self) -> Result<(), RunFileError> {
        if self.environments.is_empty() {
            return Ok(());
        }
        if self.rules.environment != EnvironmentSection::default() {
            return Err(both_forms());
        }
        for (index, entry) in self.environments.iter().enumerate() {
            if self.environments[..index].iter().any(|before| before.name == entry.name) {
                return Err(RunFileError::Contradiction(format!(
                    "two environments are named `{}`\nhint: set another `name`",
                    entry.name
                )));
            }
            entry.check(&self.stages)?;
        }
        if self.environments.iter().all(|entry| entry.share == 0.0) {
            let message = "the shares of all environments are 0, so that nothing is trained\nhint: set `share` of one \
                           of [[environments]] above 0";
            return Err(RunFileError::Contradiction(message.to_owned()));
        }
        Ok(())
    }

    /// Rejects a metric of an environment that the run does not have or does not evaluate.
    pub(crate) fn check_evaluation_metric(&self) -> Result<(), RunFileError> {
        let Some(name) = &self.evaluation.metric.environment else { return Ok(()) };
        let all = self.environment_settings();
        let evaluated = all.iter().filter(|own| own.eval_tasks > 0);
        let known: Vec<&str> = evaluated.filter_map(|own| own.name.as_deref()).collect();
        if known.contains(&name.as_str()) {
            return Ok(());
        }
        let hint = match &known[..] {
            [] => "leave out the environment's name".to_owned(),
            known => format!("use one of `{}`{}", known.join("`, `"), did_you_mean(name, known.iter().copied())),
        };
        Err(RunFileError::Contradiction(format!(
            "evaluation.metric is `{}`, but no environment `{name}` is evaluated\nhint: {hint}",
            self.evaluation.metric
        )))
    }

    /// Rejects samplers that contradict themselves or a stage.
    pub(crate) fn check_samplers(&self) -> Result<(), RunFileError> {
        for EnvironmentSettings { name, sampler, .. } in self.environment_settings() {
            let own = name.map_or_else(|| "sampler".to_owned(), |name| format!("environments.{name}.sampler"));
            sampler.check(&own)?;
            for stage in &self.stages {
                if let Stage::Rl(stage) = stage {
                    let plain = matches!(stage.plan, SamplingPlan::Groups {});
                    sampler.check_stage(&own, &stage.name, stage.group_size, plain)?;
                }
            }
        }
        Ok(())
    }
}

/// Rejects a run file with both forms, also if one of them sets no key.
pub(crate) fn only_one_form(table: &Table) -> Result<(), RunFileError> {
    if table.contains_key("environment") && table.contains_key("environments") {
        return Err(both_forms());
    }
    Ok(())
}

fn both_forms() -> RunFileError {
    let message = "[environment] and [[environments]] exclude each other\nhint: move the keys of [environment] into an \
                   entry of [[environments]] with its `plugin`";
    RunFileError::Contradiction(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = r#"
        success = "environment.success"
        limits = { turns = 5, live_mib = 7 }
        plugins = { calculator.options = { digits = 3 }, style.weight = 2 }
        stages = [{ kind = "rl" }]
    "#;

    fn parse(environments: &str, sets: &[&str]) -> Result<RunFile, String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let file = RunFile::parse(&format!("{BASE}\n{environments}"), "run.toml", &sets);
        file.map_err(|error| error.to_string())
    }

    const TWO: &str = r#"
        [[environments]]
        plugin = "lake"
        share = 3
        success = "environment.crossed"
        plugins = { style = { gate = 'environment.crossed >= 1' } }
        limits = { calls = 2 }
        [[environments]]
        name = "stories"
        plugin = "word-problems"
        eval_tasks = 9
    "#;

    #[test]
    fn the_short_form_is_one_environment_with_the_whole_run_file() {
        let file = parse("[environment]\ntrain = \"all\"", &[]).unwrap();
        let views = file.environment_settings();
        let [only] = &views[..] else { panic!("{views:?}") };
        assert_eq!((&only.name, &only.plugin, &only.rules), (&None, &None, &file.rules));
    }

    #[test]
    fn sections_of_an_environment_replace_those_of_the_run() {
        let file = parse(TWO, &["environments.lake.train=all", "environments.1.share=2"]).unwrap();
        let views = file.environment_settings();
        let [lake, stories] = &views[..] else { panic!("{views:?}") };
        assert_eq!((lake.name.as_deref(), lake.share, stories.share), (Some("lake"), 3.0, 2.0), "named by its plugin");
        assert_eq!(
            (lake.rules.success.as_str(), lake.rules.environment.train.as_str()),
            ("environment.crossed", "all")
        );
        assert_eq!(stories.rules.success, "environment.success");
        // A section replaces the whole section, but for the memory of all live episodes, which is the run's.
        let limits = LimitsSection { calls: 2, live_mib: 7, ..LimitsSection::default() };
        assert_eq!((&lake.rules.limits, stories.rules.limits.turns), (&limits, 5));
        // What the environment sets for a plugin replaces keys of the run's section.
        assert_eq!(lake.plugins, Some(BTreeSet::from(["style".to_owned()])));
        let style = &lake.rules.plugins["style"];
        assert_eq!((style.weight, style.gate.as_deref()), (2.0, Some("environment.crossed >= 1")));
        assert_eq!((&stories.plugins, stories.rules.plugins["style"].gate.as_ref()), (&None, None));
        assert_eq!(stories.rules.plugins["calculator"].options["digits"].as_integer(), Some(3));
        assert_eq!((lake.eval_tasks, stories.eval_tasks), (200, 9));
        // What the resolved file holds is read back unchanged.
        assert_eq!(RunFile::parse(&file.resolved().unwrap(), "again", &[]).unwrap(), file);
    }

    #[test]
    fn wrappers_are_names_or_tables_with_options() {
        let wrap = "wrap = ['retry', { plugin = 'turn-cost', price = 0.5, by = 'turn' }]";
        let file = parse(&format!("[environment]\n{wrap}"), &[]).unwrap();
        let [retry, cost] = &file.rules.environment.wrap[..] else { panic!("{:?}", file.rules.environment.wrap) };
        assert_eq!((retry.plugin.as_str(), retry.options.len()), ("retry", 0));
        assert_eq!((cost.plugin.as_str(), cost.options["price"].as_float()), ("turn-cost", Some(0.5)));
        assert_eq!(file.wrappers(), BTreeSet::from(["retry", "turn-cost"].map(str::to_owned)));
        assert_eq!(RunFile::parse(&file.resolved().unwrap(), "again", &[]).unwrap(), file);
        let several = parse(&TWO.replace("share = 3", &format!("share = 3\n{wrap}")), &[]).unwrap();
        assert_eq!(several.environment_settings()[0].rules.environment.wrap, file.rules.environment.wrap);
        assert!(
            several.wrappers().contains("retry") && several.environment_settings()[1].rules.environment.wrap.is_empty()
        );
        for (entry, message) in [
            ("{ price = 1 }", "missing field `plugin`"),
            ("7", "expected the name of a wrapper, or a table with `plugin` and its options"),
        ] {
            let refused = parse(&format!("[environment]\nwrap = [{entry}]"), &[]).unwrap_err();
            assert!(refused.contains(message), "{refused}");
        }
    }

    #[test]
    fn contexts_of_all_environments_fit_the_model() {
        let mut file = parse(TWO, &["environments.lake.limits.context_tokens=64"]).unwrap();
        assert_eq!(file.context_tokens(), None);
        let refused = file.check_model(63).unwrap_err().to_string();
        assert!(refused.starts_with("environments.lake.limits.context_tokens is 64, but"), "{refused}");
        file.fit_model(128).unwrap();
        let contexts = file.environment_settings().into_iter().map(|own| own.rules.limits.context_tokens);
        assert_eq!((contexts.collect::<Vec<_>>(), file.context_tokens()), (vec![Some(64), Some(128)], Some(128)));
    }

    #[test]
    fn contradicting_environments_are_refused() {
        for (environments, sets, message) in [
            (
                "environment = {}\nenvironments = [{ plugin = \"x\" }]",
                &[][..],
                "[environment] and [[environments]] exclude",
            ),
            (
                "environments = [{ plugin = \"x\" }]",
                &["environment.train=all"],
                "[environment] and [[environments]] exclude",
            ),
            ("environments = [{ plugin = \"x\" }, { plugin = \"x\" }]", &[], "two environments are named `x`"),
            ("environments = [{ plugin = \"x\", name = \"a/b\" }]", &[], "the environment name `a/b` holds a `/`"),
            ("environments = [{ plugin = \"x\", share = 0 }]", &[], "the shares of all environments are 0"),
            (TWO, &["environments.stories.share=-1"], "`environments.stories.share` is -1; it must be 0 or more"),
            (TWO, &["environments.stories.share=nan"], "`environments.stories.share` is nan"),
            (
                TWO,
                &["environments.stories.limits={ turns = 0 }"],
                "`environments.stories.limits.turns` is 0; it must be 1 or more",
            ),
            (TWO, &["environments.lake.plugins={ x = { weight = 1e308 } }"], "`environments.lake.plugins.x.weight` is"),
            (TWO, &["environments.lake.advantage={ factor = -1 }"], "`environments.lake.advantage.factor` is -1"),
            (TWO, &["environments.lake.when_failing=ignore"], "`stop`"),
            (TWO, &["environments.lake.wrap=['retry', 'cost', 'retry']"], "lake.wrap puts `retry` around itself"),
            (TWO, &["environments.lake.wrap=['lake']"], "environments.lake.wrap puts `lake` around itself"),
            ("environment.wrap = ['a', { plugin = 'a' }]", &[], "environment.wrap puts `a` around itself"),
            ("environments = [{ name = \"x\" }]", &[], "missing field `plugin`"),
        ] {
            let found = parse(environments, sets).expect_err(message);
            assert!(found.contains(message), "{message}\n{found}");
            assert!(found.contains("\nhint: "), "{found}");
        }
    }
}
