//! The run file of a gateway: an ordinary one, in which the keys of training may be absent.

use gymkhana_config::RunFile;

use crate::args::GatewayArgs;
use crate::error::{Classify, CliError, CliResult};

/// Success rule of a file without one.
const SUCCESS: &str = "environment.success";
/// The stage of a file without any: a run file has at least one.
const STAGE: &str = "kind = \"rl\"\nname = \"gateway\"\nsteps = 1\n";

/// Reads the run file.
pub(super) fn read(args: &GatewayArgs) -> CliResult<RunFile> {
    let origin = args.run_file.display().to_string();
    let cannot = || format!("`{origin}` cannot be read\nhint: name a run file");
    let text = std::fs::read_to_string(&args.run_file).user_context(cannot())?;
    let mut file = RunFile::parse(&completed(&text), &origin, &args.set).user_error()?;
    if file.policy.server.is_none() {
        return Err(CliError::user("`host gateway` needs a policy server, and policy.server is not set")
            .with_hint("set policy.server = { url = …, protocol = \"vllm\", name = … } and policy.checkpoint"));
    }
    // The harness plays instead of the program, and each session is one attempt.
    file.agent = None;
    file.failures.retries = 0;
    Ok(file)
}

/// A run file with the defaults alone.
///
/// # Errors
/// Only if they do not fit each other.
pub(super) fn without_training() -> CliResult<RunFile> {
    RunFile::parse(&completed(""), "the run file of a gateway's workers", &[]).internal()
}

/// The text with a success rule and a stage. A text that is malformed stays as it is, for the error to name its lines.
fn completed(text: &str) -> String {
    let Ok(mut table) = text.parse::<toml::Table>() else { return text.to_owned() };
    let (no_rule, no_stage) = (!table.contains_key("success"), !table.contains_key("stages"));
    if !no_rule && !no_stage {
        return text.to_owned();
    }
    if no_rule {
        table.insert("success".to_owned(), SUCCESS.into());
    }
    if let (true, Ok(stage)) = (no_stage, STAGE.parse::<toml::Table>()) {
        table.insert("stages".to_owned(), vec![toml::Value::Table(stage)].into());
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_training_is_completed() {
        let text = completed("[gateway]\nsessions = 3\n");
        let file = RunFile::parse(&text, "gateway.toml", &[]).expect("a run file");
        assert_eq!((file.success.as_str(), file.stages.len()), (SUCCESS, 1));
        assert_eq!(file.gateway.map(|gateway| gateway.sessions), Some(3));
        assert_eq!(
            completed("success = \"a.b\"\n[[stages]]\nkind = \"sft\"\n"),
            "success = \"a.b\"\n[[stages]]\nkind = \"sft\"\n"
        );
        assert_eq!(completed("= 3"), "= 3");
    }
}
