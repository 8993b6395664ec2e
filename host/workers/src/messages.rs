//! Messages between trainer and workers.
//!
//! Jobs and the headers of results are JSON. Policy calls are binary, since they hold numbers per token.

use bytes::Bytes;
use gymkhana_orchestration::remote::GroupJob;
use gymkhana_policy::{Generated, PolicyError, Sampling};
use gymkhana_record::{Sampled, Seed};
use gymkhana_registry::Digest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::description::Versions;

/// A group to play, with its number in this life of the trainer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerJob {
    pub number: u64,
    pub group: GroupJob,
}

/// How a worker's work on a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum JobEnd {
    /// The group was played and scored.
    Played,
    /// A fault that every worker would have, which ends the run; the text is the reason.
    Fault(String),
    /// A failure of this worker: the group goes to another one. The text is the reason.
    Failed(String),
}

/// Header of a result; the records follow it, or are an object of the files bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResultHeader {
    /// Name of the worker.
    pub worker: String,
    /// Versions of the worker.
    pub versions: Versions,
    /// Digest of the run's lock of plugins at the worker.
    pub lock: Digest,
    pub job: u64,
    /// Number of the delivery, from 1.
    pub delivery: u64,
    pub end: JobEnd,
    /// Forks that failed: their number and the last reason.
    pub failed_forks: (u64, String),
    /// Digest of the records.
    pub records: Digest,
    /// Size of the records in bytes, if they are an object of this job and delivery.
    pub object: Option<u64>,
}

impl ResultHeader {
    /// Name of the object with the records.
    pub fn object_name(worker: &str, job: u64, delivery: u64) -> String {
        format!("result-{job}-{delivery}-{worker}")
    }
}

/// The trainer's answer to a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The result counts.
    Accepted,
    /// The job has a result already, or was given up.
    NotWanted,
    /// The result is not one of this job, which goes to another worker.
    Refused(String),
    /// The worker failed; the job goes to another one.
    Elsewhere,
}

/// A request to the policy of a seat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PolicyCall {
    pub worker: String,
    pub job: u64,
    pub delivery: u64,
    /// Number of the call among those of the worker. A repeated call has the same number.
    pub call: u64,
    pub seat: u32,
    pub request: PolicyRequest,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum PolicyRequest {
    Generate {
        /// The conversation's number at the worker.
        conversation: u64,
        place: u32,
        tokens: Vec<u32>,
        max_tokens: u64,
        stop: Vec<u32>,
        stop_texts: Vec<String>,
        sampling: Sampling,
        seed: Seed,
    },
    Score {
        prefix: Vec<u32>,
        continuation: Vec<u32>,
    },
    /// The conversation is over.
    Release {
        conversation: u64,
    },
}

/// Reason why a policy call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum PolicyCallRefusal {
    #[error("the name of the worker has {found} bytes; it must have 1 to {most}")]
    Name { found: u64, most: u64 },
    #[error("the number of the delivery is {found}; it must be 1 to {most}")]
    Delivery { found: u64, most: u64 },
    #[error("a policy call has {found} stop tokens, above the limit of {most}")]
    StopTokens { found: u64, most: u64 },
    #[error("a policy call has {found} stop texts, above the limit of {most}")]
    StopTexts { found: u64, most: u64 },
    #[error("the stop texts of a policy call have {found} bytes, above the limit of {most}")]
    StopBytes { found: u64, most: u64 },
    #[error("the worker's key is not one of the trainer's --worker-keys")]
    Key,
}

impl PolicyCallRefusal {
    /// The change that lets the call pass.
    pub fn hint(self) -> &'static str {
        match self {
            Self::StopTokens { .. } | Self::StopTexts { .. } | Self::StopBytes { .. } => {
                "use fewer stop texts in the run file"
            }
            Self::Name { .. } | Self::Delivery { .. } => "use the trainer's version of `host`",
            Self::Key => "start the worker with --key, and add its key at the trainer if the worker is yours",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum PolicyAnswer {
    Generated(Generated),
    Scored(Sampled),
    Failed(PolicyError),
    Released,
    /// The job has a result, or was given up.
    Settled,
    /// The job was delivered to another worker.
    Superseded,
    /// The call exceeds a limit; the worker stops.
    Refused(PolicyCallRefusal),
}

/// A binary message.
pub(crate) fn encode(message: &impl Serialize) -> Result<Bytes, postcard::Error> {
    postcard::to_allocvec(message).map(Bytes::from)
}

/// Reads a binary message.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    postcard::from_bytes(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use gymkhana_policy::Stop;
    use gymkhana_record::{EpisodeId, Phase, TaskRef};
    use gymkhana_rollout::{GroupPlan, SamplingPlan};

    use super::*;

    /// A job with a group of this size.
    pub fn job(number: u64, size: u32) -> WorkerJob {
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 3, group: number as u32, member: 0, attempt: 0 };
        let group = GroupPlan {
            id,
            task: TaskRef { split: "train".to_owned(), index: 0 },
            seeds: Seed(u64::MAX),
            sampling: Sampling { temperature: 0.7, top_p: 0.9, ..Sampling::GREEDY },
            place: 4,
            size,
            turns: None,
        };
        WorkerJob { number, group: GroupJob { environment: 0, group, plan: SamplingPlan::default() } }
    }

    #[test]
    fn messages_come_back_whole() {
        let job = job(7, 2);
        let read: WorkerJob = serde_json::from_slice(&serde_json::to_vec(&job).unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{job:?}"));
        let call = PolicyCall {
            worker: "w".to_owned(),
            job: 7,
            delivery: 1,
            call: u64::MAX,
            seat: 1,
            request: PolicyRequest::Generate {
                conversation: 3,
                place: 5,
                tokens: vec![0, u32::MAX],
                max_tokens: 8,
                stop: vec![2],
                stop_texts: vec!["</s>".to_owned()],
                sampling: job.group.group.sampling,
                seed: Seed(9),
            },
        };
        assert_eq!(decode::<PolicyCall>(&encode(&call).unwrap()).unwrap(), call);
        let sampled =
            Sampled { tokens: vec![1], log_probs: vec![-0.1], entropies: vec![f32::MIN_POSITIVE], versions: vec![4] };
        let answers = [
            PolicyAnswer::Generated(Generated { sampled: sampled.clone(), stop: Stop::Text }),
            PolicyAnswer::Scored(sampled),
            PolicyAnswer::Failed(PolicyError::ContextFull { tokens: 9, context: 8 }),
            PolicyAnswer::Settled,
            PolicyAnswer::Superseded,
            PolicyAnswer::Refused(PolicyCallRefusal::Delivery { found: 0, most: 32 }),
        ];
        for answer in answers {
            assert_eq!(decode::<PolicyAnswer>(&encode(&answer).unwrap()).unwrap(), answer);
        }
        assert!(decode::<PolicyCall>(b"\xff\xff").is_err());
    }
}
