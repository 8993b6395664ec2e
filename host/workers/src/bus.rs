//! The connection to the bus, and the names that a run has there.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::kv::Store;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use bytes::Bytes;
pub use gymkhana_orchestration::RunKey;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_waits::{Counterpart, Silent, within};

/// Longest time of the first connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest time of a request, as the client bounds it.
const REQUEST: Duration = Duration::from_secs(10);
/// Time between two pings of a connection. After the third without an answer it is renewed, as for a half-open socket.
const PING: Duration = Duration::from_secs(20);
/// Time without an answer of a trainer, of workers or of the bus after which people are told.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// Bucket with a description of each run.
pub(crate) const RUNS: &str = "gymkhana-runs";
/// Space of a message for its header, in bytes.
const HEADER: usize = 16 << 10;

/// Address of the bus and how to authenticate there.
#[derive(Debug, Clone, Default)]
pub struct BusSettings {
    /// Address, such as `nats://bus.example:4222` or `tls://bus.example:4222`.
    pub url: String,
    /// File with a JWT and the seed of its key, as `nsc` writes it.
    pub credentials: Option<PathBuf>,
    /// File with the seed of an NKey.
    pub nkey: Option<PathBuf>,
    /// File with certificates of authorities, for TLS.
    pub ca: Option<PathBuf>,
}

/// A connection to the bus.
#[derive(Clone)]
pub(crate) struct Bus {
    pub client: Client,
    pub jetstream: Context,
}

impl Bus {
    /// Connects as the program `name`. The connection is renewed whenever it is lost.
    ///
    /// # Errors
    /// If a file cannot be read, or the bus does not answer or has no JetStream.
    pub async fn connect(settings: &BusSettings, name: &str) -> RunResult<Self> {
        let BusSettings { url, credentials, nkey, ca } = settings;
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(CONNECT)
            .ping_interval(PING)
            .request_timeout(Some(REQUEST));
        if let Some(path) = credentials {
            let wrong = format!("--bus-credentials: `{}` cannot be used\nhint: write it with `nsc`", path.display());
            options = options.credentials_file(path).await.user_context(wrong)?;
        }
        if let Some(path) = nkey {
            let wrong = format!("--bus-nkey: `{}` cannot be read\nhint: check the path", path.display());
            options = options.nkey(std::fs::read_to_string(path).user_context(wrong)?.trim().to_owned());
        }
        if let Some(path) = ca {
            options = options.add_root_certificates(path.clone());
        }
        let silent = |error: async_nats::ConnectError| {
            let why = match error.kind() {
                ConnectErrorKind::TimedOut => format!("it did not answer for {} s", CONNECT.as_secs()),
                _ => error.to_string(),
            };
            let why = why.strip_prefix("IO error: ").unwrap_or(&why);
            RunError::user(format!("the bus at {} cannot be used: {why}", without_password(url)))
                .with_hint("start `nats-server --jetstream`, or check the address and the credentials")
        };
        let client = options.connect(url.as_str()).await.map_err(silent)?;
        let jetstream = jetstream::new(client.clone());
        // The client's own query does not read the answers of all servers of today.
        let account = client.request("$JS.API.INFO", Bytes::new()).await;
        account.map_err(|error| {
            RunError::user(format!("the bus at {} has no JetStream: {error}", without_password(url)))
                .with_hint("start it with `nats-server --jetstream`")
        })?;
        Ok(Self { client, jetstream })
    }

    /// The descriptions of runs. An absent bucket is an answer: no run has been there, or the bus lost it.
    ///
    /// # Errors
    /// If the bus does not answer.
    pub async fn runs(&self) -> Result<Option<Store>, Silent> {
        let asked = within(Counterpart::Bus, SILENCE, self.jetstream.get_key_value(RUNS)).await?;
        let error = match asked {
            Ok(runs) => return Ok(Some(runs)),
            Err(error) => error,
        };
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<GetStreamError>());
        match cause.map(GetStreamError::kind) {
            Some(GetStreamErrorKind::Request) => {
                Err(Silent { counterpart: Counterpart::Bus, named: String::new(), waited: REQUEST })
            }
            _ => Ok(None),
        }
    }

    /// Most bytes of a message's content.
    pub fn most_bytes(&self) -> usize {
        self.client.server_info().max_payload.saturating_sub(HEADER)
    }
}

/// An address without its user and password.
pub(crate) fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}{}", &url[..scheme + 3], &url[at + 1..]),
        _ => url.to_owned(),
    }
}

/// A key that no other run has.
///
/// # Errors
/// If the system has no random numbers.
pub fn random_key(name: &str) -> RunResult<RunKey> {
    Ok(RunKey::numbered(name, getrandom::u64().internal()?))
}

/// Names of a run's streams, buckets and subjects in one life of its trainer.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    run: RunKey,
    /// Differs in each process that trains the run.
    epoch: String,
}

impl Names {
    pub fn new(run: RunKey, epoch: String) -> Self {
        Self { run, epoch }
    }

    /// Stream with the jobs.
    pub fn jobs_stream(&self) -> String {
        format!("gymkhana-{}-jobs", self.run)
    }

    /// Bucket with the run's files, and with results that are larger than a message.
    pub fn files_bucket(&self) -> String {
        format!("gymkhana-{}", self.run)
    }

    /// Subjects of all jobs of the run, also of earlier trainers.
    pub fn all_jobs(&self) -> String {
        format!("gymkhana.{}.jobs.*", self.run)
    }

    /// Consumer that all workers share. It has the jobs of this life of the trainer alone: a worker that has not yet
    /// heard of a resumed run must not take jobs that it does not play.
    pub fn consumer(&self) -> String {
        format!("workers-{}", self.epoch)
    }

    pub fn jobs(&self) -> String {
        format!("gymkhana.{}.jobs.{}", self.run, self.epoch)
    }

    /// Subject of results, which the trainer answers.
    pub fn results(&self) -> String {
        format!("gymkhana.{}.results.{}", self.run, self.epoch)
    }

    /// Subject of policy calls, which the trainer answers.
    pub fn policy(&self) -> String {
        format!("gymkhana.{}.policy.{}", self.run, self.epoch)
    }

    /// Subjects of the acknowledgements that workers send to the queue of this life.
    pub fn acknowledgements(&self) -> String {
        format!("$JS.ACK.{}.{}.>", self.jobs_stream(), self.consumer())
    }

    /// Subject of questions whether the trainer lives, which it answers.
    pub fn alive(&self) -> String {
        format!("gymkhana.{}.alive.{}", self.run, self.epoch)
    }

    /// Subject of signs of life of workers that hold sessions, which the server answers.
    pub fn heartbeats(&self) -> String {
        format!("gymkhana.{}.beats.{}", self.run, self.epoch)
    }

    /// Subject of requests of sessions for a worker of this id.
    pub fn places(&self, worker: &str) -> String {
        format!("gymkhana.{}.places.{}.{worker}", self.run, self.epoch)
    }

    /// Key of the run's position in the bucket of runs. Workers read no key with a dot.
    pub fn position(&self) -> String {
        format!("{}.position", self.run)
    }

    /// Subject of the numbers of jobs that the trainer has given up.
    pub fn given_up(&self) -> String {
        format!("gymkhana.{}.given-up.{}", self.run, self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_show_passwords() {
        assert_eq!(without_password("nats://me:secret@bus:4222"), "nats://bus:4222");
        assert_eq!(without_password("nats://bus:4222"), "nats://bus:4222");
    }
}
