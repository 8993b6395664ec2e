//! Names that depend on a run, collected from its episodes.

use std::collections::BTreeSet;

use gymkhana_nearest::did_you_mean;

use crate::error::UnseenName;
use crate::figure::{ComponentFigure, Episode, TextFigure};

/// Names that occur in episodes: components of rewards and facts of environments, environments, splits and stages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EpisodeNames {
    components: BTreeSet<String>,
    environments: BTreeSet<String>,
    splits: BTreeSet<String>,
    stages: BTreeSet<String>,
}

impl EpisodeNames {
    /// Adds the names of an episode.
    pub fn add(&mut self, episode: Episode<'_>) {
        let record = episode.record;
        for plugin in &record.scores {
            for score in plugin.scores.iter().filter(|score| score.seat == 0) {
                insert(&mut self.components, &format!("{}.total", plugin.plugin));
                for component in &score.components {
                    insert(&mut self.components, &format!("{}.{}", plugin.plugin, component.name));
                }
            }
        }
        for extra in record.extras.iter().filter(|extra| extra.value.as_number().is_some()) {
            insert(&mut self.components, &format!("environment.{}", extra.name));
        }
        if let Some(environment) = &record.environment {
            insert(&mut self.environments, environment);
        }
        insert(&mut self.splits, &record.task.split);
        insert(&mut self.stages, episode.stage);
    }

    pub(crate) fn check_component(&self, component: &ComponentFigure) -> Result<(), UnseenName> {
        check("the figure", &component.to_string(), &self.components)
    }

    pub(crate) fn check_text(&self, figure: TextFigure, text: &str) -> Result<(), UnseenName> {
        match figure {
            TextFigure::Environment => check("the environment", text, &self.environments),
            TextFigure::Split => check("the split", text, &self.splits),
            TextFigure::Stage => check("the stage", text, &self.stages),
            TextFigure::Purpose | TextFigure::Ending | TextFigure::Failure => Ok(()),
        }
    }
}

fn insert(names: &mut BTreeSet<String>, name: &str) {
    if !names.contains(name) {
        names.insert(name.to_owned());
    }
}

fn check(what: &'static str, name: &str, known: &BTreeSet<String>) -> Result<(), UnseenName> {
    if known.contains(name) {
        return Ok(());
    }
    let names = || known.iter().map(String::as_str);
    let near = match did_you_mean(name, names()) {
        none if none.is_empty() && known.is_empty() => String::new(),
        none if none.is_empty() => format!("; there are {}", names().collect::<Vec<_>>().join(", ")),
        near => near,
    };
    Err(UnseenName { what, name: name.to_owned(), near })
}
