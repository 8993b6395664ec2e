//! The run file of a gateway: an ordinary one, whose stages are not used.

use gymkhana_config::{Recorder, RunFile};

use crate::args::GatewayArgs;
use crate::error::{Classify, CliError, CliResult};

/// Reads the run file.
pub(super) fn read(args: &GatewayArgs) -> CliResult<RunFile> {
    let mut file = RunFile::read(&args.run_file, &args.set).user_error()?;
    if file.policy.server.is_none() {
        return Err(CliError::user("`host gateway` needs a policy server, and policy.server is not set")
            .with_hint("set policy.server = { url = …, protocol = \"vllm\", name = … } and policy.checkpoint"));
    }
    // The harness plays instead of the program, and each session is one attempt.
    file.agent = None;
    file.recorder = Some(Recorder::Gateway);
    file.rules.failures.retries = 0;
    Ok(file)
}
