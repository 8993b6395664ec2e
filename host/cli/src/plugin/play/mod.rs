//! `host plugin play`: a person plays an environment or calls a tool. Every line that is typed is a command or, to an
//! environment, a message; it works the same when the lines come from a file.

mod episode;
mod input;
mod lines;
mod scores;
mod session;

use gymkhana_driver::BoundPlugin;
use gymkhana_record::Seed;
use gymkhana_registry::{Capability, Kind};
use gymkhana_sandbox::Sandbox;

use crate::args::plugin::PlayArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::build::{self, BuildMode};
use crate::plugin::companions::Companions;
use crate::plugin::find;
use crate::plugin::log;
use crate::plugin::plugin_inputs;
use crate::printer::Printer;
use lines::TypedLines;

/// Plays.
pub fn play(args: &PlayArgs, printer: &Printer) -> CliResult<()> {
    let given = find(&args.plugin, BuildMode::Quick, printer)?;
    let kinds = &given.manifest.kinds;
    let is_environment = kinds.contains(&Kind::Environment);
    if !is_environment && !kinds.contains(&Kind::Tool) {
        return Err(CliError::user(format!(
            "plugin `{}` is a reward and cannot be played\nhint: play an environment --with it, or run `host plugin \
             test` to see its scores",
            given.manifest.name
        )));
    }
    if given.manifest.capabilities.contains(&Capability::InnerEnvironment) {
        let message = format!("plugin `{}` is a wrapper and cannot be played alone", given.manifest.name);
        return Err(CliError::user(message).with_hint("play an environment with --wrap"));
    }
    if !is_environment && (args.privileged || !args.with.is_empty() || !args.wrap.is_empty()) {
        let name = &given.manifest.name;
        let message = format!("--with, --wrap and --privileged need an environment, but plugin `{name}` is a tool");
        return Err(CliError::user(message).with_hint("play an environment --with it"));
    }
    let sandbox = plugin_inputs::sandbox(&plugin_inputs::author_config(build::effort(&args.plugin)), printer)?;
    let plugin = given.load(&sandbox)?.with_assets(plugin_inputs::assets(&args.asset)?);
    let plugin = log::printed(&plugin, printer);
    let options = plugin_inputs::options(plugin.name(), &args.option)?;
    let runtime = plugin_inputs::runtime()?;
    runtime.block_on(plugin_inputs::check_options(&plugin, &options))?;
    if is_environment {
        let companions =
            runtime.block_on(Companions::load(&Companions::find(&args.with, printer)?, &sandbox, printer))?;
        let lines = TypedLines::new(printer);
        let bound = wrapped(BoundPlugin { plugin, options }, args, &sandbox, printer)?;
        return runtime.block_on(episode::play(&bound.plugin, &bound.options, &companions, args, &lines));
    }
    let setup = plugin_inputs::setup(args.setup.as_deref())?;
    let lines = TypedLines::new(printer);
    runtime.block_on(session::play(&plugin, &options, setup.as_deref(), Seed(args.seed), &lines))
}

/// The environment inside of the wrappers of --wrap, each with default options.
fn wrapped(environment: BoundPlugin, args: &PlayArgs, sandbox: &Sandbox, printer: &Printer) -> CliResult<BoundPlugin> {
    args.wrap.iter().rev().try_fold(environment, |inside, path| {
        let wrapper = find(path, BuildMode::Quick, printer)?.load(sandbox)?;
        let plugin = log::printed(&wrapper, printer).wrapping(&inside.plugin, inside.options).user_error()?;
        Ok(BoundPlugin { plugin, options: vec![] })
    })
}
