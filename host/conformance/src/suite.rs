//! The suite: the checks in order, and the report of their results.

use gymkhana_registry::{
    Capability, Check, CheckOutcome, ComponentError, ContractError, Digest, Kind, Manifest, ManifestError,
    REPORT_SCHEMA, Report, SUITE, imports, read_manifest,
};
use gymkhana_sandbox::{CallError, Grants, LoadError, Plugin, Sandbox};

use crate::SuiteSettings;
use crate::checks::{self, CAPABILITIES, CheckInfo, LOADS, OPTION_LIMITS, Run, SuiteCheck, playing};
use crate::finding::{Defect, Finding, Stop, skipped};
use crate::fixture::{Fixture, with_synthetic_answers};

/// The plugin cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The manifest is missing or invalid.
    #[error("the file is not a plugin")]
    Manifest(#[from] ManifestError),
    /// The file is not a WebAssembly component.
    #[error("the file is not a plugin")]
    Component(#[from] ComponentError),
    /// The plugin was built for another version of the contract.
    #[error("the plugin cannot be checked by this host")]
    Contract(#[from] ContractError),
    /// The plugin is a wrapper, and no environment is given with it.
    #[error(
        "a wrapper is checked around environments, and none is given with it\nhint: name some with --with, such as \
         word-problems.wasm"
    )]
    NoEnvironment,
    /// This host cannot load the plugin.
    #[error("the plugin cannot be run here")]
    Load(#[from] LoadError),
    /// A call failed that had to be measured.
    #[error("{0}")]
    Plugin(String),
    /// The host failed, so there is no result.
    #[error("the host could not run the plugin")]
    Host(#[source] CallError),
}

/// All checks in the order of execution.
#[must_use]
pub fn all_checks() -> Vec<CheckInfo> {
    let playing = playing().into_iter().map(|check| check.info);
    [CAPABILITIES, LOADS].into_iter().chain(playing).chain([OPTION_LIMITS]).collect()
}

/// Checks a plugin. `origin` names it in messages; `on_result` receives each check's result when it ends. Compiling blocks
/// the thread for tenths of a second or more.
///
/// # Errors
/// If the bytes are not a plugin of this contract, or the host fails. Everything else is a finding.
pub async fn check_plugin(
    sandbox: &Sandbox,
    origin: &str,
    bytes: &[u8],
    settings: SuiteSettings,
    mut on_result: impl FnMut(&Check) + Send,
) -> Result<Report, SuiteError> {
    let manifest = read_manifest(bytes)?;
    manifest.check_contract()?;
    let imports = imports(bytes)?;
    let wraps = manifest.capabilities.contains(&Capability::InnerEnvironment);
    if wraps && !settings.beside.iter().any(|(plugin, _)| is_environment(plugin)) {
        return Err(SuiteError::NoEnvironment);
    }
    let mut report = report(&manifest, bytes, &settings);
    let mut causes = Causes::default();
    let mut note = |info: CheckInfo, finding: Finding, report: &mut Report| {
        let check = match finding {
            Ok(outcome) => Check { name: info.name.to_owned(), outcome, same_cause_as: None },
            Err(Stop::Plugin(defect)) => causes.failed(info, defect),
            Err(Stop::Host(error)) => return Err(SuiteError::Host(error)),
        };
        on_result(&check);
        report.checks.push(check);
        Ok(())
    };
    note(CAPABILITIES, checks::capabilities::check(&manifest, &imports), &mut report)?;
    let grants = Grants(manifest.capabilities.clone());
    let fixtures = match Plugin::from_bytes(sandbox, origin, bytes, &grants) {
        Ok(plugin) => fixtures(plugin, settings).await,
        Err(error @ (LoadError::Cache(_) | LoadError::TooBig { .. })) => return Err(error.into()),
        Err(error) => Err(Stop::Plugin(Defect::new(with_causes(&error)))),
    };
    let fixtures = match fixtures {
        Ok(fixtures) => fixtures,
        Err(stop) => {
            note(LOADS, Err(stop), &mut report)?;
            for info in playing().into_iter().map(|check| check.info).chain([OPTION_LIMITS]) {
                note(info, skipped("the plugin does not run"), &mut report)?;
            }
            return Ok(report);
        }
    };
    report.thinned = fixtures.iter().any(|fixture| fixture.one_in() > 1);
    note(LOADS, crate::finding::passed(format!("{} bytes", bytes.len())), &mut report)?;
    for SuiteCheck { info, run, .. } in playing() {
        let finding = run_on(&fixtures, run).await;
        note(info, finding, &mut report)?;
    }
    let finding = if report.failures().next().is_some() {
        skipped("other checks failed: correct them first")
    } else {
        let brief = playing().into_iter().filter(|check| check.at_limits);
        let brief: Vec<(&'static str, Run)> = brief.map(|check| (check.info.name, check.run)).collect();
        // One environment suffices for the limits of a wrapper's options, and keeps the suite short.
        match fixtures.first() {
            Some(fixture) => Box::pin(checks::limits::check(fixture, &brief)).await,
            None => skipped("the plugin does not run"),
        }
    };
    note(OPTION_LIMITS, finding, &mut report)?;
    report.steps = fixtures.iter().map(|fixture| fixture.used().len() as u64).sum();
    Ok(report)
}

fn is_environment(plugin: &Plugin) -> bool {
    plugin.manifest().kinds.contains(&Kind::Environment)
}

/// The plugin under test; a wrapper around each environment given with it, except for those that it refuses.
async fn fixtures(plugin: Plugin, settings: SuiteSettings) -> Result<Vec<Fixture>, Stop> {
    if !plugin.is_wrapper() {
        return Ok(vec![Fixture::new(plugin, settings).await?]);
    }
    let (environments, beside): (Vec<_>, Vec<_>) =
        settings.beside.iter().cloned().partition(|(plugin, _)| is_environment(plugin));
    let (mut fixtures, mut refused) = (vec![], None);
    for (environment, options) in environments {
        let wrapped = plugin.wrapping(&with_synthetic_answers(&environment), options);
        let wrapped = wrapped.map_err(|error| Stop::Plugin(Defect::new(error)))?;
        match Fixture::new(wrapped, SuiteSettings { beside: beside.clone(), ..settings.clone() }).await {
            Ok(fixture) => fixtures.push(fixture),
            Err(Stop::Plugin(defect)) if defect.is_refusal() => refused = Some(defect),
            Err(stop) => return Err(stop),
        }
    }
    match refused {
        Some(defect) if fixtures.is_empty() => Err(Stop::Plugin(defect)),
        _ => Ok(fixtures),
    }
}

/// Runs a check on all fixtures until one fails it. The result is that of the first one that it applies to.
async fn run_on(fixtures: &[Fixture], run: Run) -> Finding {
    let mut result = skipped("there is nothing to check");
    for fixture in fixtures {
        let finding = run(fixture).await.map_err(|stop| match (stop, fixture.plugin.inner()) {
            (Stop::Plugin(defect), Some((inner, _))) => {
                Stop::Plugin(defect.within(format!("around `{}`", inner.name())))
            }
            (stop, _) => stop,
        })?;
        if !matches!(result, Ok(CheckOutcome::Passed(_))) {
            result = Ok(finding);
        }
    }
    result
}

/// Checks that failed, with their defects: a cause is described once.
#[derive(Default)]
struct Causes(Vec<(&'static str, Defect)>);

impl Causes {
    /// The result of a failed check.
    fn failed(&mut self, info: CheckInfo, defect: Defect) -> Check {
        let name = info.name.to_owned();
        if let Some((first, _)) = self.0.iter().find(|(_, earlier)| defect.has_cause_of(earlier)) {
            let outcome = CheckOutcome::Failed(format!("same cause as `{first}`: {}", defect.seen()));
            return Check { name, outcome, same_cause_as: Some((*first).to_owned()) };
        }
        let outcome = CheckOutcome::Failed(defect.to_string());
        self.0.push((info.name, defect));
        Check { name, outcome, same_cause_as: None }
    }
}

fn report(manifest: &Manifest, bytes: &[u8], settings: &SuiteSettings) -> Report {
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
        thinned: false,
        checks: vec![],
    }
}

/// Text of an error with its causes.
fn with_causes(error: &LoadError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
