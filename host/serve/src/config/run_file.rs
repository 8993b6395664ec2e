//! The run file of a folder of served episodes, so that the commands for runs read the folder.

use gymkhana_config::{EnvironmentSection, RunFile};
use gymkhana_orchestration::{Classify, RunResult};

use super::ServeFile;

/// A run file that trains nothing. A run file has at least one stage.
const WITHOUT_TRAINING: &str =
    "success = \"environment.success\"\n[[stages]]\nkind = \"rl\"\nname = \"served\"\nsteps = 1\n";

/// The run file of the episodes of one environment with these plugins, by their short names.
///
/// # Errors
/// If a section of the file contradicts another, or a value is out of range.
pub fn run_file(serve: &ServeFile, environment: &str, plugins: &[&str]) -> RunResult<RunFile> {
    let mut file = RunFile::parse(WITHOUT_TRAINING, "the run file of served episodes", &[]).internal()?;
    file.success.clone_from(&serve.success);
    if let Some(own) = serve.environments.get(environment) {
        file.environment = EnvironmentSection {
            weight: own.weight,
            gate: own.gate.clone(),
            options: own.options.clone(),
            wrap: own.wrap.clone(),
            ..EnvironmentSection::default()
        };
    }
    let known = |name: &String| plugins.contains(&name.as_str());
    file.tools.extend(
        serve.tools.iter().filter(|(name, _)| known(name)).map(|(name, section)| (name.clone(), section.clone())),
    );
    file.rewards.extend(
        serve.rewards.iter().filter(|(name, _)| known(name)).map(|(name, section)| (name.clone(), section.clone())),
    );
    file.plugins.extend(
        serve.plugins.iter().filter(|(name, _)| known(name)).map(|(name, section)| (name.clone(), section.clone())),
    );
    let models: Vec<&String> = file.plugins.values().filter_map(|plugin| plugin.model.as_ref()).collect();
    let models = serve.models.iter().filter(|(name, _)| models.contains(name));
    file.models = models.map(|(name, section)| (name.clone(), section.clone())).collect();
    file.sandbox = serve.sandbox.clone();
    file.limits.turns = serve.episode.turns;
    file.limits.calls = serve.episode.calls;
    file.limits.seconds = serve.episode.seconds;
    file.limits.episode_mib = serve.episode.mib;
    file.check().user_error()?;
    Ok(file)
}
