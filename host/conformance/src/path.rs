//! A path through a plugin: how it began, what was done, and everything that it said.

use gymkhana_record::{NamedValue, Seed};
use gymkhana_sandbox::Plugin;

use crate::action::{Chooser, ScriptedAction};
use crate::driver::{Driver, Start};
use crate::finding::{CheckPhase, Stop};
use crate::fixture::Fixture;

/// What was done and said.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) start: Start,
    pub(crate) seed: Seed,
    /// What the plugin said at the start, then at each act.
    pub(crate) said: Vec<String>,
    pub(crate) actions: Vec<ScriptedAction>,
    pub(crate) over: bool,
}

impl Path {
    /// How a person finds it again.
    pub(crate) fn place(&self) -> String {
        format!("{} with seed {}", self.start, self.seed.0)
    }

    /// Begins a path.
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

    /// Does one thing more.
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

    /// A path of up to `length` made-up actions.
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
                .during(format!("the expert's advice in {}", path.place()))?;
            path.act(fixture, &mut driver, act).await?;
        }
        Ok((path, driver))
    }

    /// Does on `driver`, which has come as far as `from`, what was done from there on, and tells where it first said
    /// something else: the act's number, what was said the first time, and what now.
    pub(crate) async fn retrace(
        &self,
        fixture: &Fixture,
        driver: &mut Driver,
        from: usize,
    ) -> Result<Option<Divergence>, Stop> {
        for (number, act) in self.actions.iter().enumerate().skip(from) {
            let again = driver.act(act).await.during(format!("{act} in {}, done again", self.place()))?;
            fixture.count(driver, if driver.is_session() { "call" } else { "step" });
            if again != self.said[number + 1] {
                let first = self.said[number + 1].clone();
                return Ok(Some(Divergence { at: format!("step {number}, {act}"), first, again }));
            }
        }
        Ok(None)
    }
}

/// Where a path said something else when it was gone again.
#[derive(Debug)]
pub(crate) struct Divergence {
    pub(crate) at: String,
    pub(crate) first: String,
    pub(crate) again: String,
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {} it said {}", self.at, crate::finding::divergence(&self.first, &self.again))
    }
}
