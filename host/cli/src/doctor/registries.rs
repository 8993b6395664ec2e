//! Registries of the project and of the user.

use std::time::Duration;

use gymkhana_finding::Finding;

use crate::error::CliResult;
use crate::registry;

const CHECK: &str = "registry";

/// Time for all registries to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// State of the registries.
pub enum RegistriesState {
    /// Names of the configured registries, which were not contacted.
    Named(CliResult<Vec<String>>),
    /// Names of the configured registries, with the error of reading each.
    Contacted(CliResult<Vec<(String, CliResult<()>)>>),
}

/// Reads the configuration and contacts the registries.
pub fn probe(offline: bool) -> RegistriesState {
    if offline {
        RegistriesState::Named(registry::configured())
    } else {
        RegistriesState::Contacted(registry::contact_all(TIMEOUT))
    }
}

/// Checks that each registry can be read.
pub fn check(facts: &RegistriesState) -> Vec<Finding> {
    let none = || vec![Finding::ok(CHECK, "no registry in gymkhana-registries.toml")];
    match facts {
        RegistriesState::Named(Err(error)) | RegistriesState::Contacted(Err(error)) => {
            vec![Finding::fail(CHECK, error)]
        }
        RegistriesState::Named(Ok(names)) if names.is_empty() => none(),
        RegistriesState::Contacted(Ok(answers)) if answers.is_empty() => none(),
        RegistriesState::Named(Ok(names)) => {
            names.iter().map(|name| Finding::ok(CHECK, format!("`{name}` was not contacted"))).collect()
        }
        RegistriesState::Contacted(Ok(answers)) => {
            answers.iter().map(|(name, answer)| contacted(name, answer)).collect()
        }
    }
}

fn contacted(name: &str, answer: &CliResult<()>) -> Finding {
    match answer {
        Ok(()) => Finding::ok(CHECK, format!("`{name}` can be read")),
        Err(error) => Finding::fail(CHECK, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CliError;
    use gymkhana_finding::FindingStatus;

    /// Grades and texts of the findings.
    fn found(facts: &RegistriesState) -> Vec<(FindingStatus, String)> {
        check(facts).into_iter().map(|finding| (finding.status, finding.text)).collect()
    }

    #[test]
    fn each_registry_has_a_finding() {
        let failed = || CliError::user("registry `b` does not answer\nhint: check its URL");
        let facts = RegistriesState::Contacted(Ok(vec![("a".to_owned(), Ok(())), ("b".to_owned(), Err(failed()))]));
        let expected = [
            (FindingStatus::Ok, "`a` can be read".to_owned()),
            (FindingStatus::Fail, "registry `b` does not answer".to_owned()),
        ];
        assert_eq!(found(&facts), expected);
        let offline = RegistriesState::Named(Ok(vec!["a".to_owned()]));
        assert_eq!(found(&offline), [(FindingStatus::Ok, "`a` was not contacted".to_owned())]);
    }

    #[test]
    fn a_wrong_configuration_is_a_failure_and_none_is_not() {
        let wrong = || CliError::user("`gymkhana-registries.toml` is not TOML");
        for facts in [RegistriesState::Named(Err(wrong())), RegistriesState::Contacted(Err(wrong()))] {
            assert_eq!(found(&facts), [(FindingStatus::Fail, "`gymkhana-registries.toml` is not TOML".to_owned())]);
        }
        for facts in [RegistriesState::Named(Ok(vec![])), RegistriesState::Contacted(Ok(vec![]))] {
            assert_eq!(found(&facts), [(FindingStatus::Ok, "no registry in gymkhana-registries.toml".to_owned())]);
        }
    }
}
