//! A tool's session, called by hand.

use gymkhana_record::{Call, NamedValue, Seed, text_of};
use gymkhana_sandbox::{OptionalInterface, Plugin, Snapshot, ToolSession};

use super::lines::{Typed, TypedLines};
use crate::error::{Classify, CliResult};

const HELP: &str = "call NAME {json}   call a function\nfunctions          the functions\nundo               take the last call back\nquit               end";

/// Calls a tool until there are no lines.
pub(super) async fn play(
    plugin: &Plugin,
    options: &[NamedValue],
    setup: Option<&[u8]>,
    seed: Seed,
    lines: &TypedLines<'_>,
) -> CliResult<()> {
    let functions = plugin.functions(options).await.user_error()?;
    let mut session = ToolSession::open(plugin, setup, options, seed)
        .await
        .user_context("no session opens; if the tool wants something prepared, give it with --setup FILE")?;
    lines.show_functions(functions.iter());
    let saves = plugin.offers(OptionalInterface::ToolSnapshot);
    let mut before: Vec<Snapshot> = Vec::new();
    let mut calls = 0_u64;
    while let Some(typed) = lines.next()? {
        match typed {
            Typed::Call { name, arguments } => {
                let snapshot = if saves { session.snapshot().await.ok() } else { None };
                let call = Call { id: format!("call-{calls}"), name, arguments };
                calls += 1;
                match session.call(&call).await {
                    Ok(answer) => {
                        let mark = if answer.failed { "failed: " } else { "" };
                        lines.show(format!("{mark}{}", text_of(&answer.content)));
                        before.extend(snapshot);
                    }
                    Err(error) => {
                        lines.show_refusal(&error);
                        let again = ToolSession::open(plugin, setup, options, seed).await;
                        session = match snapshot {
                            Some(snapshot) => ToolSession::restore(plugin, &snapshot, seed).await.user_error()?,
                            None => again.user_error()?,
                        };
                        lines.show(if saves { "the session is as it was before" } else { "a new session was opened" });
                    }
                }
            }
            Typed::Undo if !saves => lines.show("nothing can be taken back: the tool offers no snapshots"),
            Typed::Undo => match before.pop() {
                Some(snapshot) => {
                    session = ToolSession::restore(plugin, &snapshot, seed).await.user_error()?;
                    lines.show("the last call is taken back");
                }
                None => lines.show("there is nothing to take back"),
            },
            Typed::Functions => lines.show_functions(functions.iter()),
            Typed::Quit => break,
            Typed::Help => lines.show(HELP),
            Typed::Say(_) | Typed::Oracle { .. } | Typed::Privileged | Typed::Render { .. } => {
                lines.show("a tool is called: call NAME {json}");
            }
        }
    }
    if plugin.offers(OptionalInterface::FinalView) {
        for field in session.final_view().await.user_error()? {
            lines.show_fact(&field);
        }
    }
    Ok(())
}
