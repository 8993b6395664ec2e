//! Results of workers, which are not trusted: read within limits, and compared with their jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use gymkhana_record::{EpisodeId, EpisodeRecord};
use gymkhana_registry::Digest;
use gymkhana_store::decode_episodes;
use tokio::io::AsyncReadExt;

use super::streams::Streams;
use crate::messages::{Job, ResultHeader};

/// Largest records of a group, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Longest time in which an object is fetched.
const FETCHED: Duration = Duration::from_secs(120);

/// Reason why the records of a result were not read.
pub(crate) enum Unread {
    /// The result is wrong.
    Refused(String),
    /// The bus is away, or has lost the records.
    Away(String),
}

impl From<String> for Unread {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// The records of a result: those of the message, or those of its object, which is removed.
///
/// # Errors
/// In words, if they are too large, not there, altered, or not records.
pub(crate) async fn read(
    streams: &Streams,
    header: &ResultHeader,
    inline: &[u8],
) -> Result<Vec<EpisodeRecord>, Unread> {
    let mut fetched = Vec::new();
    let bytes = match header.object {
        None => inline,
        Some(size) if size > MOST_BYTES => Err(format!("its records are larger than {MOST_BYTES} bytes"))?,
        Some(size) => {
            let fetching = fetch(streams, header, size, &mut fetched);
            let done = tokio::time::timeout(FETCHED, fetching).await;
            done.map_err(|_| Unread::Away("it takes too long".to_owned()))?.map_err(Unread::Away)?;
            &fetched
        }
    };
    Ok(records(bytes, &header.records)?)
}

async fn fetch(streams: &Streams, header: &ResultHeader, size: u64, fetched: &mut Vec<u8>) -> Result<(), String> {
    let store = streams.files().await.map_err(|error| error.to_string())?;
    let name = ResultHeader::object_name(&header.worker, header.job, header.delivery);
    let object = store.get(&name).await.map_err(|error| error.to_string())?;
    object.take(size + 1).read_to_end(fetched).await.map_err(|error| error.to_string())?;
    // What stays there ends with the run.
    let _ = store.delete(&name).await;
    Ok(())
}

/// Records of these bytes, which have this digest.
fn records(bytes: &[u8], digest: &Digest) -> Result<Vec<EpisodeRecord>, String> {
    if Digest::of(bytes) != *digest {
        return Err("its records are not those of its digest".to_owned());
    }
    decode_episodes(bytes).map_err(|error| error.to_string())
}

/// Compares records with their job. `environment` is the name of the job's environment in records.
///
/// # Errors
/// In words, at the first record that is not one of the job.
pub(crate) fn check(records: &[EpisodeRecord], job: &Job, environment: Option<&str>) -> Result<(), String> {
    let (group, members) = (&job.group.group, job.group.plan.members(job.group.group.size));
    if records.is_empty() {
        return Err("it has no records".to_owned());
    }
    let mut seen = BTreeSet::new();
    for record in records {
        let id = record.id;
        if (EpisodeId { member: 0, attempt: 0, ..id }) != (EpisodeId { member: 0, attempt: 0, ..group.id }) {
            return Err(format!("episode {id} is not one of group {}", group.id));
        }
        if id.member >= members || !seen.insert(id.member) {
            return Err(format!("episode {id} is none of the {members} members of its group, or comes twice"));
        }
        if record.task != group.task || record.environment.as_deref() != environment {
            return Err(format!("episode {id} has another task than its group"));
        }
        // A fork has the seed of the episode that it began in.
        let seed = group.seeds.child(EpisodeId { attempt: 0, ..id });
        if record.forks.is_empty() && record.seed != seed {
            return Err(format!("episode {id} has another seed than its group gives it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Ending, TaskRef};
    use gymkhana_store::encode_episodes;

    use super::*;
    use crate::messages::tests::job;

    /// The record of a member, as a worker plays it.
    fn member(job: &Job, member: u32) -> EpisodeRecord {
        let plan = job.group.group.member(member);
        EpisodeRecord::new(plan.id, plan.task, plan.seed, Ending::Dropped)
    }

    #[test]
    fn a_group_has_the_episodes_of_its_job() {
        let job = job(7, 2);
        let whole = [member(&job, 0), member(&job, 1)];
        assert_eq!(check(&whole, &job, None), Ok(()));
        // An episode that was played again after a fault.
        let mut again = member(&job, 1);
        again.id.attempt = 2;
        assert_eq!(check(&[again], &job, None), Ok(()));
        let altered = |change: fn(&mut EpisodeRecord)| {
            let mut record = member(&job, 0);
            change(&mut record);
            check(&[record], &job, None).unwrap_err()
        };
        assert!(altered(|record| record.id.group += 1).contains("is not one of group"));
        assert!(altered(|record| record.id.step += 1).contains("is not one of group"));
        assert!(altered(|record| record.id.member = 2).contains("none of the 2 members"));
        assert!(altered(|record| record.seed = gymkhana_record::Seed(0)).contains("another seed"));
        let other = |record: &mut EpisodeRecord| record.task = TaskRef { split: "train".to_owned(), index: 1 };
        assert!(altered(other).contains("another task"));
        assert!(altered(|record| record.environment = Some("other".to_owned())).contains("another task"));
        assert!(check(&[member(&job, 0), member(&job, 0)], &job, None).unwrap_err().contains("comes twice"));
        assert!(check(&[], &job, None).unwrap_err().contains("no records"));
    }

    #[test]
    fn altered_and_cut_bytes_are_refused() {
        let sent = [member(&job(7, 1), 0)];
        let bytes = encode_episodes(&sent).unwrap();
        let digest = Digest::of(&bytes);
        assert_eq!(records(&bytes, &digest).unwrap(), sent);
        let mut altered = bytes.clone();
        altered[40] ^= 1;
        assert!(records(&altered, &digest).unwrap_err().contains("not those of its digest"));
        let cut = &bytes[..bytes.len() - 1];
        assert!(records(cut, &Digest::of(cut)).is_err());
    }
}
