//! The run file of a new project, with limits from the environment's example.

use std::fmt;
use std::path::Path;

use gymkhana_registry::{EnvironmentDescription, ExampleEntry, Speaker};

use super::chosen::{ChosenPlugins, answer};
use super::project::own_name;
use crate::args::InitArgs;
use crate::error::{CliError, CliResult};

/// File name.
pub const NAME: &str = "run.toml";

/// Episodes of a training step: 16 groups of 8.
const EPISODES_PER_STEP: u64 = 128;

/// Name of the fact by which environments report success.
const SUCCESS: &str = "success";

/// Names of components that mean success.
const SUCCESS_COMPONENTS: [&str; 3] = ["correct", "success", "solved"];

/// Optimiser of the supervised warm-up from random weights, as in the examples.
const WARM_UP: &str =
    r#"{ learning_rate = 2e-3, warmup_steps = 20, schedule = "cosine", total_steps = 400, beta2 = 0.95 }"#;

/// What the run file says.
pub struct RunFileText {
    success: String,
    plugins: Vec<PluginText>,
    model: Option<String>,
    limits: Limits,
    has_oracle: bool,
    steps: u64,
}

/// A plugin's name, source and memory limit in MiB.
struct PluginText {
    name: String,
    source: String,
    memory_mib: Option<u64>,
}

/// Limits of an episode. Without an example they are those of the templates' environment.
struct Limits {
    turns: usize,
    reply_tokens: usize,
    context: usize,
}

impl RunFileText {
    /// The run file for plugins.
    ///
    /// # Errors
    /// If nothing says which episodes succeed.
    pub fn new(args: &InitArgs, chosen: &ChosenPlugins) -> CliResult<Self> {
        let environment = chosen.environment.as_ref().map(|one| &one.description);
        let named = chosen.entries().map(|(entry, memory_mib)| {
            let version = &entry.version;
            let source = format!("{}@^{}.{}", entry.name, version.major, version.minor);
            PluginText { name: entry.name.name().to_owned(), source, memory_mib }
        });
        let own = args.own.map(own_name);
        let own = own.map(|name| {
            let source = format!("plugins/{name}/{name}.wasm");
            PluginText { name: name.to_owned(), source, memory_mib: None }
        });
        Ok(Self {
            success: success(args, chosen)?,
            plugins: named.chain(own).collect(),
            model: args.model.as_deref().map(model),
            limits: environment
                .map_or(Limits::default(), |environment| Limits::of(environment, !chosen.tools.is_empty())),
            has_oracle: environment.is_none_or(|environment| environment.offers.iter().any(|offer| offer == "oracle")),
            steps: args.episodes.div_ceil(EPISODES_PER_STEP).max(1),
        })
    }
}

/// What counts as solved: what --success names, a component of a reward, or the environment's fact.
fn success(args: &InitArgs, chosen: &ChosenPlugins) -> CliResult<String> {
    if let Some(given) = &args.success {
        return Ok(given.clone());
    }
    let Some(environment) = &chosen.environment else { return Ok(format!("environment.{SUCCESS}")) };
    let facts = answer(&environment.description.facts).map_or(&[][..], Vec::as_slice);
    if facts.iter().any(|fact| fact == SUCCESS) {
        return Ok(format!("environment.{SUCCESS}"));
    }
    for reward in &chosen.rewards {
        let mut components = reward.description.components.iter().map(|component| component.name.as_str());
        if let Some(found) = components.find(|name| SUCCESS_COMPONENTS.contains(name)) {
            return Ok(format!("{}.{found}", reward.entry.name.name()));
        }
    }
    let facts = facts.iter().map(|fact| format!("environment.{fact}"));
    let components = chosen.rewards.iter().flat_map(|reward| {
        let name = reward.entry.name.name();
        reward.description.components.iter().map(move |component| format!("{name}.{}", component.name))
    });
    let candidates: Vec<String> = facts.chain(components).collect();
    let message = format!("nothing says which episodes of `{}` succeed", environment.entry.name);
    let hint = match &candidates[..] {
        [] => "add a reward with --rewards, such as `--rewards answer-match`".to_owned(),
        some => format!("name one with --success: {}", some.join(", ")),
    };
    Err(CliError::user(message).with_hint(hint))
}

/// A model's folder by its absolute path, or a name of a hub as it is.
fn model(given: &str) -> String {
    let path = Path::new(given);
    match std::path::absolute(path) {
        Ok(absolute) if path.is_dir() => absolute.display().to_string(),
        _ => given.to_owned(),
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { turns: 8, reply_tokens: 64, context: 768 }
    }
}

impl Limits {
    /// Twice what the oracle needs for the first task; with tools, further turns for calls and their answers.
    fn of(environment: &EnvironmentDescription, has_tools: bool) -> Self {
        let example = &environment.example;
        if example.is_empty() {
            return Self::default();
        }
        let bytes = |entries: &mut dyn Iterator<Item = &ExampleEntry>| {
            entries.map(|entry| entry.text.len() + 16).sum::<usize>()
        };
        let of_oracle = || example.iter().filter(|entry| entry.by == Speaker::Oracle);
        let longest = of_oracle().map(|entry| entry.text.len()).max().unwrap_or(0);
        let calls = if has_tools { 4 } else { 0 };
        let functions = answer(&environment.first_task).map_or(0, |first| first.functions.len());
        let reply_tokens = (longest * 2 + if has_tools || functions > 0 { 64 } else { 16 }).next_multiple_of(8);
        let whole = bytes(&mut example.iter()) * 2 + calls * 64;
        Self {
            turns: of_oracle().count() * 2 + calls,
            reply_tokens,
            context: (whole + reply_tokens).next_multiple_of(128),
        }
    }
}

impl fmt::Display for RunFileText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { success, plugins, model, limits, has_oracle, steps } = self;
        let quoted = |text: &str| toml_edit::Value::from(text).to_string();
        writeln!(
            f,
            "# Written by `host init`. `host run {NAME} --dry-run` shows the plan, `host run {NAME}` trains.\n"
        )?;
        writeln!(f, "seed = 1\nthreads = 2\nsuccess = {}\n\n[plugins]", quoted(success))?;
        for PluginText { name, source, .. } in plugins.iter().filter(|plugin| plugin.memory_mib.is_none()) {
            writeln!(f, "{name} = {}", quoted(source))?;
        }
        for (plugin, memory_mib) in plugins.iter().filter_map(|plugin| Some((plugin, plugin.memory_mib?))) {
            let PluginText { name, source, .. } = plugin;
            writeln!(f, "\n[plugins.{name}]\nuse = {}\nmemory_mib = {memory_mib}", quoted(source))?;
        }
        writeln!(f, "\n[policy]")?;
        match model {
            Some(model) => writeln!(f, "checkpoint = {}", quoted(model))?,
            None => writeln!(
                f,
                "# A byte-level model with random weights. `checkpoint = \"DIR\"` names a model's folder instead.\n\
                 tiny = {{ layers = 3, width = 128, heads = 4, kv_heads = 4, mlp = 384, context = {} }}",
                limits.context
            )?,
        }
        writeln!(f, "\n# From an episode of the oracle: twice its turns and its longest reply.\n[limits]")?;
        writeln!(f, "turns = {}\nreply_tokens = {}\n\n[evaluation]\ntasks = 64", limits.turns, limits.reply_tokens)?;
        if model.is_none() && *has_oracle {
            writeln!(f, "\n# Supervised warm-up on episodes of the oracle.\n[[stages]]\nkind = \"sft\"\nsteps = 400")?;
            writeln!(f, "batch = 32\noptimizer = {WARM_UP}")?;
        }
        writeln!(
            f,
            "\n# Reinforcement learning on the policy's own episodes and their rewards.\n[[stages]]\nkind = \"rl\""
        )?;
        writeln!(f, "algorithm = \"loop\"\nsteps = {steps}\ngroups = 16\ngroup_size = 8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_with_much_memory_has_a_table_of_its_own() {
        let plugin = |name: &str, memory_mib| PluginText {
            name: name.to_owned(),
            source: format!("acme/{name}@^0.1"),
            memory_mib,
        };
        let text = RunFileText {
            success: "environment.success".to_owned(),
            plugins: vec![plugin("interpreter", Some(136)), plugin("lake", None)],
            model: None,
            limits: Limits::default(),
            has_oracle: false,
            steps: 1,
        };
        let expected = "[plugins]\nlake = \"acme/lake@^0.1\"\n\n[plugins.interpreter]\nuse = \"acme/interpreter@^0.1\"\n\
                        memory_mib = 136\n\n[policy]\n";
        let text = text.to_string();
        assert!(text.contains(expected), "{text}");
    }
}
