//! The suite: its checks in their order, and the report that they come to.

use futures::future::BoxFuture;
use gymkhana_registry::{
    Check, ComponentError, ContractError, Digest, Manifest, ManifestError, Outcome, REPORT_SCHEMA, Report, SUITE,
    imports, read_manifest,
};
use gymkhana_sandbox::{CallError, Grants, LoadError, Plugin, Sandbox};

use crate::Settings;
use crate::checks;
use crate::finding::{Finding, Stop};
use crate::fixture::Fixture;

/// A plugin cannot be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// It has no manifest that can be read.
    #[error("the file is no plugin")]
    Manifest(#[from] ManifestError),
    /// It is no component.
    #[error("the file is no plugin")]
    Component(#[from] ComponentError),
    /// It was built for another host.
    #[error("the plugin cannot be checked by this host")]
    Contract(#[from] ContractError),
    /// This host cannot hold it.
    #[error("the plugin cannot be run here")]
    Load(#[from] LoadError),
    /// It failed where it had to work to be measured.
    #[error("{0}")]
    Plugin(String),
    /// The host failed, and nothing is known of the plugin.
    #[error("the host could not run the plugin")]
    Host(#[source] CallError),
}

/// A check by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckInfo {
    /// Its name in reports.
    pub name: &'static str,
    /// What it looks at.
    pub what: &'static str,
}

type Run = for<'a> fn(&'a Fixture) -> BoxFuture<'a, Finding>;

/// Before anything is run.
const LOADS: CheckInfo =
    CheckInfo { name: "loads", what: "the engine takes the component, and it exports what it says" };
const CAPABILITIES: CheckInfo =
    CheckInfo { name: "capabilities", what: "the component imports what its manifest asks for, and nothing else" };

/// The checks of a plugin that runs.
fn playing() -> Vec<(CheckInfo, Run)> {
    let check = |name, what, run: Run| (CheckInfo { name, what }, run);
    vec![
        check("describes-itself", "its summary, options, seats and components are told in words", |fixture| {
            Box::pin(checks::describe::check(fixture))
        }),
        check("options", "options that it does not know, or of another type, are refused", |fixture| {
            Box::pin(checks::options::check(fixture))
        }),
        check("splits-and-tasks", "splits have the tasks that they promise, and no others", |fixture| {
            Box::pin(checks::splits::check(fixture))
        }),
        check("parameters", "functions take JSON Schemas, and arguments made from them are answered", |fixture| {
            Box::pin(checks::parameters::check(fixture))
        }),
        check("same-seed-same-bytes", "the same start, seed and actions give the same bytes", |fixture| {
            Box::pin(checks::state::determinism::check(fixture))
        }),
        check("snapshots", "what is restored goes on as what was saved, and as what was replayed", |fixture| {
            Box::pin(checks::state::snapshots::check(fixture))
        }),
        check("bad-snapshots", "bytes that are no snapshot are refused", |fixture| {
            Box::pin(checks::state::snapshots::check_bad(fixture))
        }),
        check("state-keys", "equal states have equal keys, and other states others", |fixture| {
            Box::pin(checks::state::state_keys::check(fixture))
        }),
        check("read-only", "reading a state does not change it", |fixture| Box::pin(checks::state::read_only::check(fixture))),
        check("oracle", "the oracle ends its episodes, and well", |fixture| Box::pin(checks::oracle::check(fixture))),
        check("invalid-actions", "what the rules forbid is answered", |fixture| {
            Box::pin(checks::invalid::check(fixture))
        }),
        check("isolation", "two episodes or sessions in one instance do not disturb each other", |fixture| {
            Box::pin(checks::state::isolation::check(fixture))
        }),
        check("fuzz", "random actions are answered, and rewards stay in their range", |fixture| {
            Box::pin(checks::fuzz::check(fixture))
        }),
        check("scores", "finished episodes of all shapes get a score for each seat, in range and finite", |fixture| {
            Box::pin(checks::scores::check(fixture))
        }),
        check("same-episodes-same-scores", "the same episodes get the same scores", |fixture| {
            Box::pin(checks::scores::check_again(fixture))
        }),
        check("cost", "no call needs more instructions or memory than a run allows", |fixture| {
            Box::pin(checks::cost::check(fixture))
        }),
    ]
}

/// All checks, in the order in which they are made.
#[must_use]
pub fn all_checks() -> Vec<CheckInfo> {
    [CAPABILITIES, LOADS].into_iter().chain(playing().into_iter().map(|(info, _)| info)).collect()
}

/// Checks a plugin. `origin` names it in messages; `told` hears of each check when it is over. Compiling blocks for
/// tenths of a second and more.
///
/// # Errors
/// If the bytes are no plugin of this contract, or the host fails. Everything else is a finding.
pub async fn check_plugin(
    sandbox: &Sandbox,
    origin: &str,
    bytes: &[u8],
    settings: Settings,
    mut told: impl FnMut(&Check) + Send,
) -> Result<Report, SuiteError> {
    let manifest = read_manifest(bytes)?;
    manifest.check_contract()?;
    let imports = imports(bytes)?;
    let mut report = report(&manifest, bytes, &settings);
    let mut note = |info: CheckInfo, finding: Finding, report: &mut Report| {
        let outcome = match finding {
            Ok(outcome) => outcome,
            Err(Stop::Plugin(why)) => Outcome::Failed(why),
            Err(Stop::Host(error)) => return Err(SuiteError::Host(error)),
        };
        let check = Check { name: info.name.to_owned(), outcome };
        told(&check);
        report.checks.push(check);
        Ok(())
    };
    note(CAPABILITIES, checks::capabilities::check(&manifest, &imports), &mut report)?;
    let grants = Grants(manifest.capabilities.clone());
    let fixture = match Plugin::from_bytes(sandbox, origin, bytes, &grants) {
        Ok(plugin) => Fixture::new(plugin, settings).await,
        Err(error @ (LoadError::Cache(_) | LoadError::TooBig { .. })) => return Err(error.into()),
        Err(error) => Err(Stop::Plugin(told_whole(&error))),
    };
    let fixture = match fixture {
        Ok(fixture) => fixture,
        Err(stop) => {
            note(LOADS, Err(stop), &mut report)?;
            for (info, _) in playing() {
                note(info, crate::finding::skipped("the plugin does not run"), &mut report)?;
            }
            return Ok(report);
        }
    };
    note(LOADS, crate::finding::passed(format!("{} bytes", bytes.len())), &mut report)?;
    for (info, run) in playing() {
        let finding = run(&fixture).await;
        note(info, finding, &mut report)?;
    }
    report.steps = fixture.used().len() as u64;
    Ok(report)
}

fn report(manifest: &Manifest, bytes: &[u8], settings: &Settings) -> Report {
    Report {
        schema: REPORT_SCHEMA,
        suite: SUITE,
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        digest: Digest::of(bytes),
        contract: manifest.contract.clone(),
        seed: settings.seed,
        actions: settings.steps,
        most_fuel: settings.most_fuel,
        most_memory: settings.most_memory,
        steps: 0,
        checks: vec![],
    }
}

/// An error with its causes.
fn told_whole(error: &LoadError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
