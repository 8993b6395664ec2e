//! A path through a plugin: how it began, what was done, and everything that it said.

use gymkhana_record::{NamedValue, Seed};
use gymkhana_sandbox::Plugin;

use crate::acts::{Act, Picker};
use crate::bench::Bench;
use crate::finding::{During, Stop};
use crate::stage::{Beginning, Stage};

/// What was done and said.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) beginning: Beginning,
    pub(crate) seed: Seed,
    /// What the plugin said at the start, then at each act.
    pub(crate) said: Vec<String>,
    pub(crate) acts: Vec<Act>,
    pub(crate) over: bool,
}

impl Path {
    /// How a person finds it again.
    pub(crate) fn place(&self) -> String {
        format!("{} with seed {}", self.beginning, self.seed.0)
    }

    /// Begins a path.
    pub(crate) async fn begin(
        bench: &Bench,
        plugin: &Plugin,
        beginning: &Beginning,
        options: &[NamedValue],
        seed: Seed,
    ) -> Result<(Self, Stage), Stop> {
        let (stage, said) = Stage::begin(plugin, beginning, options, seed)
            .await
            .during(format!("the start of {beginning} with seed {} failed", seed.0))?;
        bench.count(&stage, "start");
        let (acts, over) = (vec![], stage.over);
        Ok((Self { beginning: beginning.clone(), seed, said: vec![said], acts, over }, stage))
    }

    /// Does one thing more.
    pub(crate) async fn act(&mut self, bench: &Bench, stage: &mut Stage, act: Act) -> Result<(), Stop> {
        let after = self.acts.last().map_or_else(String::new, |last| format!(", after {last}"));
        let said =
            stage.act(&act).await.during(format!("{act} in {}, step {}{after}", self.place(), self.acts.len()))?;
        bench.count(stage, if stage.is_session() { "call" } else { "step" });
        self.over = stage.over;
        self.acts.push(act);
        self.said.push(said);
        Ok(())
    }

    /// A path of up to `length` made-up acts.
    pub(crate) async fn walk(
        bench: &Bench,
        beginning: &Beginning,
        seed: Seed,
        length: usize,
    ) -> Result<(Self, Stage), Stop> {
        let (mut path, mut stage) = Self::begin(bench, &bench.plugin, beginning, &bench.options, seed).await?;
        let mut picker = Picker::new(seed);
        while path.acts.len() < length && !path.over {
            let act = picker
                .next(&bench.plugin, &mut stage)
                .await
                .during(format!("the expert's advice in {}", path.place()))?;
            path.act(bench, &mut stage, act).await?;
        }
        Ok((path, stage))
    }

    /// Does on `stage`, which has come as far as `from`, what was done from there on, and tells where it first said
    /// something else: the act's number, what was said the first time, and what now.
    pub(crate) async fn retrace(&self, bench: &Bench, stage: &mut Stage, from: usize) -> Result<Option<Parting>, Stop> {
        for (number, act) in self.acts.iter().enumerate().skip(from) {
            let again = stage.act(act).await.during(format!("{act} in {}, done again", self.place()))?;
            bench.count(stage, if stage.is_session() { "call" } else { "step" });
            if again != self.said[number + 1] {
                let first = self.said[number + 1].clone();
                return Ok(Some(Parting { at: format!("step {number}, {act}"), first, again }));
            }
        }
        Ok(None)
    }
}

/// Where a path said something else when it was gone again.
#[derive(Debug)]
pub(crate) struct Parting {
    pub(crate) at: String,
    pub(crate) first: String,
    pub(crate) again: String,
}

impl std::fmt::Display for Parting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {} it said {}", self.at, crate::finding::parting(&self.first, &self.again))
    }
}
