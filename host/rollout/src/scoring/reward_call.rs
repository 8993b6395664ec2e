//! One reward's scorings of one group, with its outbound calls.

use std::collections::VecDeque;
use std::sync::Arc;

use gymkhana_driver::{
    EpisodeLog, ExchangeRecorder, LogRecorder, RecordedExchanges, RewardTools, ToolCaller, with_recorder,
};
use gymkhana_record::{Boundary, CallCost, CallSite, EpisodeRecord, Exchange, LogEntry, Score};
use gymkhana_sandbox::{CallError, Scorer, Trajectory};
use tracing::{Instrument, info_span};

use crate::Rollout;
use crate::metrics::WaitKind;
use crate::plugins::RewardPlugin;
use crate::replay::overrides::ReplayOverrides;

/// The outcome of one scoring.
#[derive(Debug)]
pub(crate) enum ScoringResult<T> {
    /// The reward's scores.
    Scored(T),
    /// The reward failed.
    Failed(CallError),
    /// The host could not run the reward in any of its attempts.
    HostFailed(CallError),
}

impl<T> ScoringResult<T> {
    /// The host's failure, if the host failed.
    pub(crate) fn host_failure(&self) -> Option<CallError> {
        match self {
            Self::HostFailed(error) => Some(error.clone()),
            Self::Scored(_) | Self::Failed(_) => None,
        }
    }
}

/// A reward's scorings of one group.
pub(crate) struct RewardCall<'a> {
    rollout: &'a Rollout,
    pub(crate) reward: &'a RewardPlugin,
    /// Recorded answers of a replay; `None` if real calls are made.
    recorded: Option<RecordedExchanges>,
    heard: Vec<Exchange>,
    costs: Vec<CallCost>,
    /// Log of all scorings, which share one limit.
    logs: EpisodeLog,
    scorings: u32,
}

impl<'a> RewardCall<'a> {
    /// `recorded` holds the group's records in a replay, and `overrides` those of each episode. If the reward failed by
    /// the clock on some members, the replay repeats only its last scoring, without them.
    pub(crate) fn new(
        rollout: &'a Rollout,
        reward: &'a RewardPlugin,
        recorded: &[EpisodeRecord],
        overrides: &[ReplayOverrides],
    ) -> Self {
        let at = boundary(reward);
        let exchanges = recorded.iter().flat_map(|record| &record.exchanges).filter(|exchange| exchange.at == at);
        let mut exchanges: VecDeque<Exchange> = exchanges.cloned().collect();
        if overrides.iter().any(|overrides| overrides.calls.failure(&at, &CallSite::Score).is_some()) {
            let last = exchanges.back().map(|exchange| exchange.call_site.clone());
            exchanges.retain(|exchange| Some(&exchange.call_site) == last.as_ref());
        }
        let exchanges = exchanges.into_iter().map(|exchange| (exchange, false)).collect();
        let recorded = (!recorded.is_empty()).then_some(exchanges);
        let logs = EpisodeLog::new(reward.bound.plugin.log_bytes());
        Self { rollout, reward, recorded, heard: vec![], costs: vec![], logs, scorings: 0 }
    }

    /// Outbound calls, costs and log of the scorings that count.
    pub(crate) fn into_account(self) -> (Vec<Exchange>, Vec<CallCost>, Vec<LogEntry>) {
        (self.heard, self.costs, self.logs.into_entries())
    }

    /// Scores some members together; repeats the scoring after a fault of the host.
    pub(crate) async fn score(
        &mut self,
        records: &[EpisodeRecord],
        members: &[usize],
    ) -> ScoringResult<Vec<Vec<Score>>> {
        let Some(first) = members.first().map(|&index| &records[index]) else {
            return ScoringResult::Scored(vec![]);
        };
        let group: Vec<Trajectory<'_>> = members.iter().map(|&index| Trajectory::of(&records[index])).collect();
        let bound = &self.reward.bound;
        let seed = first.seed.child("reward").child(bound.plugin.name());
        let mut attempt = 0;
        loop {
            let tools = || -> Arc<dyn ToolCaller> {
                let (tools, max_calls) = (&self.rollout.plugins.tools, self.rollout.limits.calls);
                Arc::new(RewardTools::new(tools, max_calls, seed.child("tool"), &first.opening.setup))
            };
            let recorder = ExchangeRecorder::of_reward(&bound.plugin, self.recorded.take(), members.len(), tools);
            let log = LogRecorder::of(&bound.plugin);
            let plugin = log.attach(&with_recorder(&bound.plugin, recorder.as_ref()));
            let timer = self.rollout.metrics.time(WaitKind::Reward);
            let span = info_span!("reward", plugin = plugin.name(), first = %first.id, episodes = members.len());
            let scoring = async {
                let mut scorer = Scorer::open(&plugin, seed).await?;
                let scored = scorer.score(&group, &bound.options, first.training_step).await;
                Ok((scored, scorer.cost()))
            };
            let (scored, cost) = match scoring.instrument(span).await {
                Ok((scored, cost)) => (scored, Some(cost)),
                Err(error) => (Err(error), None),
            };
            drop(timer);
            let faulty = scored.as_ref().err().filter(|error| error.kind.is_hosts());
            if let Some(recorder) = &recorder {
                self.recorded = recorder.left();
            }
            match faulty {
                None => {
                    let (at, call_site) = (boundary(self.reward), CallSite::Scoring(self.scorings));
                    self.logs.extend(log.take(&at, &call_site, None));
                    self.heard.extend(recorder.into_iter().flat_map(|recorder| recorder.take(&at, &call_site)));
                    self.costs.extend(cost.map(|cost| CallCost { at, call_site, cost }));
                    self.scorings += 1;
                    return match scored {
                        Ok(scores) => ScoringResult::Scored(scores),
                        Err(error) => ScoringResult::Failed(error),
                    };
                }
                Some(error) if attempt >= self.rollout.retries => return ScoringResult::HostFailed(error.clone()),
                Some(_) => attempt += 1,
            }
        }
    }
}

pub(crate) fn boundary(reward: &RewardPlugin) -> Boundary {
    Boundary::Reward(reward.bound.plugin.name().to_owned())
}
