//! Rollouts whose policy a server samples, without training and without the weights.

mod model;
pub mod server;

use std::sync::Arc;

use gymkhana_chat::{ChatFiles, ChatFormat};
use gymkhana_config::{EpisodeRules, RunFile, SeatBinding};
use gymkhana_policy::Policy;
use gymkhana_policy_server::ServerPool;
use gymkhana_rollout::{Rollout, SeatPlayer};
use gymkhana_sandbox::Plugin;

use self::model::ModelFacts;
use crate::error::{Classify, RunError, RunResult};
use crate::host_io::OnHost;
use crate::report::Reporter;
use crate::schedule::seat_players::SeatPlayers;
use crate::seats::{self, bindings};
use crate::{plugins, rewards, rollout};

/// A rollout with its served policy.
pub struct Served {
    /// Run file, completed from the server and the model.
    pub file: RunFile,
    /// Rules and plugins of all episodes.
    pub rollout: Arc<Rollout>,
    /// Policies of the seats.
    pub seats: ServedSeats,
    /// Texts of the model's chat format.
    pub chat: ChatFiles,
}

/// Policies of the seats: the server, or the environment's oracle.
#[derive(Clone)]
pub struct ServedSeats {
    policy: OnHost<ServerPool>,
    /// Whether the oracle plays each seat.
    oracle: Vec<bool>,
}

impl SeatPlayers for ServedSeats {
    fn players(&self) -> Vec<SeatPlayer<'_>> {
        let player = |oracle: &bool| if *oracle { SeatPlayer::Oracle } else { SeatPlayer::Policy(&self.policy) };
        self.oracle.iter().map(player).collect()
    }
}

impl ServedSeats {
    /// Failure of the server's last request; `None` while it answers.
    #[must_use]
    pub fn gave_up(&self) -> Option<String> {
        self.policy.client().gave_up().map(|failure| failure.text)
    }
}

impl Served {
    /// Binds the plugins as the run file says, and connects its server. Requests run on the current runtime.
    ///
    /// # Errors
    /// If the plugins do not fit the run file, it names an agent program, or the server or its model cannot be used.
    pub async fn connect(file: RunFile, plugins: Vec<Plugin>, reporter: &Arc<dyn Reporter>) -> RunResult<Self> {
        rollout::starts_agents(&file, false)?;
        Self::connect_with(file, plugins, reporter, |rollout, _| Ok(rollout)).await
    }

    /// As [`Served::connect`], with an agent that `with_agent` adds to the rollout.
    ///
    /// # Errors
    /// As [`Served::connect`], and those of `with_agent`.
    pub async fn connect_with(
        mut file: RunFile,
        plugins: Vec<Plugin>,
        reporter: &Arc<dyn Reporter>,
        with_agent: impl FnOnce(Rollout, &RunFile) -> RunResult<Rollout>,
    ) -> RunResult<Self> {
        plugins::plays_one_environment(&file)?;
        let set = plugins::bind_all(&file.rules, plugins).await?;
        let rewards = rewards::reward_sum(&file.rules, &set)?;
        seats::check(&file.rules, &set)?;
        let oracle = oracles(&file.rules, set.seat_names())?;
        model::complete(&mut file.policy, reporter).await?;
        let missing = || RunError::user("no server plays\nhint: set policy.server and policy.checkpoint");
        let (section, checkpoint) =
            file.policy.server.as_ref().zip(file.policy.checkpoint.as_mut()).ok_or_else(missing)?;
        let ModelFacts { chat, size } = ModelFacts::read(checkpoint).await?;
        let format = || ChatFormat::new(&chat).user_error();
        let policy = OnHost::new(Arc::new(server::connect(section, size, format()?, reporter).await?));
        file.rules.limits.fit_model(policy.context()).user_error()?;
        rollout::check_agent(&file, &set)?;
        let rollout = rollout::of_run(&file, &file.rules, set, format()?, rewards, None)?;
        let rollout = Arc::new(with_agent(rollout, &file)?);
        Ok(Self { file, rollout, seats: ServedSeats { policy, oracle }, chat })
    }
}

/// Seats that the oracle plays.
fn oracles(rules: &EpisodeRules, names: &[String]) -> RunResult<Vec<bool>> {
    let is_oracle = |binding: seats::Binding<'_>| match binding.section.policy {
        SeatBinding::Shared => Ok(false),
        SeatBinding::Oracle => Ok(true),
        SeatBinding::Frozen | SeatBinding::Separate => Err(RunError::user(format!(
            "seats.{} has a model of its own, but one server plays all seats\nhint: set its policy to \"shared\" or \
             \"oracle\"",
            binding.name
        ))),
    };
    bindings(&rules.seats, names).into_iter().map(is_oracle).collect()
}
