//! The agent program of a run: an unmodified program that plays the policy's episodes through the gateway.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use gymkhana_gateway::control::{Control, ExternalPrograms};
use gymkhana_gateway::program::AgentProgram;
use gymkhana_gateway::server::{Gateway, GatewayError};
use gymkhana_gateway::session::StopCache;

use crate::agent_instances::AgentPlaces;

/// Settings of an agent program.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSettings {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables of the host's environment that the program sees, besides the basic ones.
    pub env: Vec<String>,
    /// Names of the policy; the first is the program's default.
    pub models: Vec<String>,
    /// Names of models whose requests are not turns.
    pub side_models: Vec<String>,
    /// The program's own time for one episode; waits for the policy and for tools of the run do not count.
    pub time: Duration,
    /// Time after an answer in which the same request is a repeat.
    pub retry_window: Duration,
    /// Texts that end every reply.
    pub stop_texts: Vec<String>,
    /// Whether the program may call the functions of the tools and the environment by MCP.
    pub mcp: bool,
    /// Whether requests decide about sampling. Otherwise all replies are sampled as the episode's plan says, as training
    /// needs.
    pub requested_sampling: bool,
}

/// A running gateway with the settings of the program that it serves.
pub struct AgentHarness {
    /// Programs that the host does not start; by default it starts one for each episode.
    pub(crate) external: Option<Arc<dyn ExternalPrograms>>,
    /// Where the plugin instances of its episodes are; by default in this process.
    pub(crate) places: Option<Arc<dyn AgentPlaces>>,
    pub(crate) gateway: Gateway,
    pub(crate) settings: AgentSettings,
    pub(crate) stop_cache: Arc<StopCache>,
}

impl AgentHarness {
    /// Starts a gateway on the loopback address.
    ///
    /// # Errors
    /// If the system has no free port or no further threads.
    pub fn start(settings: AgentSettings) -> Result<Self, GatewayError> {
        let gateway = Gateway::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { external: None, places: None, gateway, settings, stop_cache: Arc::default() })
    }

    /// Starts a gateway at which harnesses open sessions. `url` is its address as they see it, by default the bound one.
    ///
    /// # Errors
    /// If the address cannot be bound, or the system has no further threads.
    pub fn start_external(
        settings: AgentSettings,
        address: SocketAddr,
        url: Option<String>,
        control: Arc<Control>,
    ) -> Result<Self, GatewayError> {
        let gateway = Gateway::start_with(address, url, Arc::clone(&control))?;
        Ok(Self { external: Some(control), places: None, gateway, settings, stop_cache: Arc::default() })
    }

    /// Starts the plugin instances of its episodes in these places.
    #[must_use]
    pub fn with_places(mut self, places: Arc<dyn AgentPlaces>) -> Self {
        self.places = Some(places);
        self
    }

    /// Address of the gateway as programs see it.
    #[must_use]
    pub fn url(&self) -> &str {
        self.gateway.url()
    }

    /// The program.
    pub(crate) fn program(&self) -> AgentProgram {
        AgentProgram { command: self.settings.command.clone(), env: self.settings.env.clone() }
    }
}
