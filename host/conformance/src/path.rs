//! A path through a plugin: its start, its actions and the plugin's answers.

use gymkhana_record::{NamedValue, Seed};
use gymkhana_sandbox::Plugin;

use crate::action::ScriptedAction;
use crate::action::chooser::Chooser;
use crate::driver::{Driver, Start, Views};
use crate::finding::{CheckPhase, Stop};
use crate::fixture::Fixture;
use crate::tree::{Difference, Tree};

/// Actions and answers of one episode or session.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) start: Start,
    pub(crate) seed: Seed,
    /// The plugin's answers: at the start, then after each action.
    pub(crate) said: Vec<Tree>,
    pub(crate) actions: Vec<ScriptedAction>,
    pub(crate) over: bool,
}

impl Path {
    /// Description for reports that identifies the path.
    pub(crate) fn place(&self) -> String {
        format!("{} with seed {}", self.start, self.seed.0)
    }

    /// Starts a path.
    pub(crate) async fn begin(
        fixture: &Fixture,
        plugin: &Plugin,
        start: &Start,
        options: &[NamedValue],
        seed: Seed,
    ) -> Result<(Self, Driver), Stop> {
        let (driver, said) = Driver::begin(plugin, start, options, seed)
            .await
            .during(format!("the start of {start} with seed {} failed", seed.0))?;
        fixture.count(&driver, "start");
        let (actions, over) = (vec![], driver.over);
        Ok((Self { start: start.clone(), seed, said: vec![said], actions, over }, driver))
    }

    /// Performs one more action.
    pub(crate) async fn act(
        &mut self,
        fixture: &Fixture,
        driver: &mut Driver,
        act: ScriptedAction,
    ) -> Result<(), Stop> {
        let after = self.actions.last().map_or_else(String::new, |last| format!(", after {last}"));
        let said =
            driver.act(&act).await.during(format!("{act} in {}, step {}{after}", self.place(), self.actions.len()))?;
        fixture.count(driver, if driver.is_session() { "call" } else { "step" });
        self.over = driver.over;
        self.actions.push(act);
        self.said.push(said);
        Ok(())
    }

    /// First difference between the start of this path and that of its repetition, if any.
    pub(crate) fn start_difference(&self, again: &Self) -> Option<Difference> {
        self.said.first()?.difference(again.said.first()?)
    }

    /// Walks a path of up to `length` generated actions.
    pub(crate) async fn walk(
        fixture: &Fixture,
        start: &Start,
        seed: Seed,
        length: usize,
    ) -> Result<(Self, Driver), Stop> {
        let (mut path, mut driver) = Self::begin(fixture, &fixture.plugin, start, &fixture.options, seed).await?;
        let mut chooser = Chooser::new(seed);
        while path.actions.len() < length && !path.over {
            let act = chooser
                .next(&fixture.plugin, &mut driver)
                .await
                .during(format!("the oracle's advice in {}", path.place()))?;
            path.act(fixture, &mut driver, act).await?;
        }
        Ok((path, driver))
    }

    /// The path up to this step and with it.
    pub(crate) fn up_to(&self, step: usize) -> Self {
        let actions = self.actions.iter().take(step.saturating_add(1)).cloned().collect();
        Self { actions, ..self.clone() }
    }

    /// Repeats the actions from index `from` on a driver that has come as far. Returns the first difference between the
    /// answers, if any.
    pub(crate) async fn retrace(
        &self,
        fixture: &Fixture,
        driver: &mut Driver,
        from: usize,
    ) -> Result<Option<Divergence>, Stop> {
        for (number, act) in self.actions.iter().enumerate().skip(from) {
            let again = driver.act(act).await.during(format!("{act} in {}, done again", self.place()))?;
            fixture.count(driver, if driver.is_session() { "call" } else { "step" });
            if let Some(difference) = self.said[number + 1].difference(&again) {
                return Ok(Some(Divergence { at: format!("step {number}, {act}"), difference }));
            }
        }
        Ok(None)
    }

    /// Reads the views of a driver on this path.
    pub(crate) async fn views(&self, fixture: &Fixture, driver: &mut Driver) -> Result<Views, Stop> {
        driver.views(&fixture.plugin).await.during(format!("a read of {}", self.place()))
    }
}

/// First difference between the views of a state and those of the same state reached in another way, if any.
pub(crate) fn view_difference(views: &Views, again: &Views) -> Option<String> {
    let both = views.iter().zip(again);
    let mut found = both.filter_map(|((name, one), (_, two))| Some((name, one.difference(two)?)));
    found.next().map(|(name, difference)| format!("`{name}` shows {difference}"))
}

/// Difference between a path and its repetition.
#[derive(Debug)]
pub(crate) struct Divergence {
    at: String,
    difference: Difference,
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {}, {}", self.at, self.difference)
    }
}
