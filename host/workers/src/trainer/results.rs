//! Results of workers, which are not trusted: read within limits, and compared with their jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Segment};
use gymkhana_registry::Digest;
use gymkhana_rollout::SamplingPlan;
use gymkhana_store::{BadEpisodes, decode_episodes};
use gymkhana_waits::{Counterpart, within};

use super::ledger::SampledVersions;
use super::streams::Streams;
use crate::description::SeatKind;
use crate::messages::{ResultHeader, WorkerJob};
use crate::objects;

/// Longest time in which an object is fetched.
const FETCHED: Duration = Duration::from_secs(120);

/// Reason why the records of a result were not read.
pub(crate) enum Unread {
    /// The result is wrong.
    Refused(RecordRefusal),
    /// The bus is away, or has lost the records.
    Unreachable(String),
}

impl From<RecordRefusal> for Unread {
    fn from(why: RecordRefusal) -> Self {
        Self::Refused(why)
    }
}

/// Reason why the records of a result are refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordRefusal {
    #[error("its records are not those of its digest")]
    Digest,
    #[error(transparent)]
    Malformed(#[from] BadEpisodes),
    #[error("it has no records")]
    Empty,
    #[error("episode {0} is not one of group {1}")]
    Group(EpisodeId, EpisodeId),
    #[error("episode {0} is none of the {1} members of its group, or comes twice")]
    Member(EpisodeId, u32),
    #[error("it has {found} of the {asked} episodes that its job asks for")]
    Missing { found: u32, asked: u32 },
    #[error("episode {0} has another task than its group")]
    Task(EpisodeId),
    #[error("episode {0} has another seed than its group gives it")]
    Seed(EpisodeId),
    #[error("episode {0} holds a number that is not finite")]
    NotFinite(EpisodeId),
    #[error("episode {0} has tokens of seat {1}, which the run does not have")]
    Seat(EpisodeId, u32),
    #[error("episode {0} has tokens of weight version {1}, but the trainer sampled none of its group with it")]
    Version(EpisodeId, u32),
}

/// The records of a result: those of the message, or those of its object, which is removed.
///
/// # Errors
/// If they are not there, altered, or not records.
pub(crate) async fn read(
    streams: &Streams,
    header: &ResultHeader,
    inline: &[u8],
) -> Result<Vec<EpisodeRecord>, Unread> {
    let Some(size) = header.object else { return Ok(records(inline, &header.records)?) };
    let fetched = within(Counterpart::Bus, FETCHED, fetch(streams, header, size)).await;
    let fetched = fetched.map_err(|_| Unread::Unreachable(format!("it takes more than {} s", FETCHED.as_secs())))?;
    match records(&fetched.map_err(Unread::Unreachable)?, &header.records) {
        // Others may write to the bucket. The worker offers its records again.
        Err(why @ RecordRefusal::Digest) => Err(Unread::Unreachable(why.to_string())),
        read => Ok(read?),
    }
}

async fn fetch(streams: &Streams, header: &ResultHeader, size: u64) -> Result<Vec<u8>, String> {
    let store = streams.publication.files().await.map_err(|error| error.to_string())?;
    let name = ResultHeader::object_name(&header.worker, header.job, header.delivery);
    let fetched = objects::get(&store, &name, size).await.map_err(|error| error.to_string())?;
    // What stays there ends with the run.
    let _ = store.delete(&name).await;
    Ok(fetched)
}

/// Records of these bytes, which have this digest.
fn records(bytes: &[u8], digest: &Digest) -> Result<Vec<EpisodeRecord>, RecordRefusal> {
    if Digest::of(bytes) != *digest {
        return Err(RecordRefusal::Digest);
    }
    Ok(decode_episodes(bytes)?)
}

/// Reads the records of a job and compares them with it, for the fuzz targets.
#[cfg(fuzzing)]
pub(crate) fn check_records(job: &WorkerJob, bytes: &[u8]) -> Result<(), RecordRefusal> {
    let records = records(bytes, &Digest::of(bytes))?;
    let seats = [SeatKind::Model { context: 4096, can_score: true }];
    ExpectedRecords { job, environment: None, seats: &seats, sampled: &SampledVersions::default() }.check(&records)
}

/// What the records of a job are compared with.
pub(crate) struct ExpectedRecords<'a> {
    pub job: &'a WorkerJob,
    /// Name of the job's environment in records.
    pub environment: Option<&'a str>,
    /// Players of the seats.
    pub seats: &'a [SeatKind],
    /// Weight versions of the tokens that were sampled for the job.
    pub sampled: &'a SampledVersions,
}

impl ExpectedRecords<'_> {
    /// Compares records with their job.
    ///
    /// # Errors
    /// At the first record that is not one of the job, or if one is missing.
    pub fn check(&self, records: &[EpisodeRecord]) -> Result<(), RecordRefusal> {
        if records.is_empty() {
            return Err(RecordRefusal::Empty);
        }
        let (group, environment) = (&self.job.group.group, self.environment);
        for record in records {
            let id = record.id;
            if (EpisodeId { member: 0, attempt: 0, ..id }) != (EpisodeId { member: 0, attempt: 0, ..group.id }) {
                return Err(RecordRefusal::Group(id, group.id));
            }
            if record.task != group.task || record.environment.as_deref() != environment {
                return Err(RecordRefusal::Task(id));
            }
            // A fork has the seed of the episode that it began in.
            let seed = group.seeds.child(EpisodeId { attempt: 0, ..id });
            if record.forks.is_empty() && record.seed != seed {
                return Err(RecordRefusal::Seed(id));
            }
            record.segments.iter().try_for_each(|segment| self.check_segment(id, segment))?;
        }
        self.check_members(records)
    }

    /// Each member has one episode. Plans with forks may also keep a dropped one that others began in.
    fn check_members(&self, records: &[EpisodeRecord]) -> Result<(), RecordRefusal> {
        let (plan, size) = (&self.job.group.plan, self.job.group.group.size);
        let members = plan.members(size);
        let has_forks = matches!(plan, SamplingPlan::Branch(_) | SamplingPlan::Prefixes(_));
        let mut last: BTreeMap<u32, EpisodeId> = BTreeMap::new();
        for record in records {
            let id = record.id;
            let newest = last.entry(id.member).or_insert(id);
            *newest = (*newest).max(id);
        }
        let mut seen = BTreeSet::new();
        for record in records {
            let id = record.id;
            let is_kept = last.get(&id.member) == Some(&id) || (has_forks && record.ending == Ending::Dropped);
            if id.member >= members || !seen.insert(id) || !is_kept {
                return Err(RecordRefusal::Member(id, members));
            }
        }
        // A guided group repeats those members alone that failed.
        let asked = if let SamplingPlan::Guided(_) = plan { size } else { members };
        let found = last.range(..asked).count() as u32;
        if found < asked { Err(RecordRefusal::Missing { found, asked }) } else { Ok(()) }
    }

    fn check_segment(&self, id: EpisodeId, segment: &Segment) -> Result<(), RecordRefusal> {
        if !segment.log_probs().iter().chain(segment.entropies()).all(|number| number.is_finite()) {
            return Err(RecordRefusal::NotFinite(id));
        }
        let seat = segment.seat();
        let Some(kind) = self.seats.get(seat as usize) else { return Err(RecordRefusal::Seat(id, seat)) };
        // Oracles have no weights.
        if *kind == SeatKind::Oracle || self.job.group.group.id.phase == Phase::Demonstration {
            return Ok(());
        }
        let sampled = self.sampled.of(seat);
        let mut versions = segment.versions().iter().zip(segment.sampled()).filter(|(_, sampled)| **sampled);
        match versions.find(|(version, _)| !sampled.is_some_and(|known| known.contains(version))) {
            Some((version, _)) => Err(RecordRefusal::Version(id, *version)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Sampled, TaskRef};
    use gymkhana_rollout::{Branch, Guided, Oversample};
    use gymkhana_store::encode_episodes;

    use super::*;
    use crate::messages::tests::job;

    const MODEL: SeatKind = SeatKind::Model { context: 64, can_score: true };

    /// The record of a member, as a worker plays it.
    fn member(job: &WorkerJob, member: u32) -> EpisodeRecord {
        let plan = job.group.group.member(member);
        EpisodeRecord::new(plan.id, plan.task, plan.seed, Ending::Dropped)
    }

    /// The refusal of these records, if any; the trainer sampled tokens of versions 3 and 4 for seat 0.
    fn refusal(records: &[EpisodeRecord], job: &WorkerJob) -> Option<String> {
        let mut sampled = SampledVersions::default();
        sampled.add(0, &[3, 4]);
        let asked =
            ExpectedRecords { job, environment: None, seats: &[MODEL, MODEL, SeatKind::Oracle], sampled: &sampled };
        asked.check(records).err().map(|refusal| refusal.to_string())
    }

    fn whole(job: &WorkerJob) -> Vec<EpisodeRecord> {
        (0..job.group.plan.members(job.group.group.size)).map(|number| member(job, number)).collect()
    }

    #[test]
    fn a_group_has_the_episodes_of_its_job() {
        let job = job(7, 2);
        assert_eq!(refusal(&whole(&job), &job), None);
        // An episode that was played again after a fault.
        let mut again = whole(&job);
        again[1].id.attempt = 2;
        assert_eq!(refusal(&again, &job), None);
        let altered = |change: fn(&mut EpisodeRecord)| {
            let mut records = whole(&job);
            change(&mut records[0]);
            refusal(&records, &job).unwrap()
        };
        assert!(altered(|record| record.id.group += 1).contains("is not one of group"));
        assert!(altered(|record| record.id.step += 1).contains("is not one of group"));
        assert!(altered(|record| record.seed = gymkhana_record::Seed(0)).contains("another seed"));
        let other = |record: &mut EpisodeRecord| record.task = TaskRef { split: "train".to_owned(), index: 1 };
        assert!(altered(other).contains("another task"));
        assert!(altered(|record| record.environment = Some("other".to_owned())).contains("another task"));
        assert!(refusal(&[], &job).unwrap().contains("no records"));
    }

    #[test]
    fn a_group_has_each_member_once() {
        let mut asked = job(7, 2);
        let missing = refusal(&whole(&asked)[1..], &asked).unwrap();
        assert_eq!(missing, "it has 1 of the 2 episodes that its job asks for");
        let more: Vec<EpisodeRecord> = (0..3).map(|number| member(&asked, number)).collect();
        assert!(refusal(&more, &asked).unwrap().contains("none of the 2 members"));
        let twice = [whole(&asked), vec![member(&asked, 0)]].concat();
        assert!(refusal(&twice, &asked).unwrap().contains("comes twice"));
        let mut attempts = twice.clone();
        attempts[2].id.attempt = 1;
        assert!(refusal(&attempts, &asked).unwrap().contains("comes twice"));
        // A dropped episode stays beside its repetition where others began in it.
        asked.group.plan = SamplingPlan::Branch(Branch::default());
        assert_eq!(refusal(&attempts, &asked), None);
        attempts[0].ending = Ending::Terminated;
        assert!(refusal(&attempts, &asked).unwrap().contains("comes twice"));
        asked.group.plan = SamplingPlan::Oversample(Oversample::default());
        assert_eq!(refusal(&whole(&asked), &asked), None);
        assert_eq!(refusal(&whole(&asked)[..3], &asked).unwrap(), "it has 3 of the 4 episodes that its job asks for");
        // Of a guided group, no member, or one, may have failed.
        asked.group.plan = SamplingPlan::Guided(Guided { retries: 1 });
        assert_eq!(refusal(&whole(&asked)[..2], &asked), None);
        assert_eq!(refusal(&whole(&asked)[..3], &asked), None);
    }

    #[test]
    fn tokens_are_those_that_the_trainer_sampled() {
        let asked = job(7, 1);
        let with = |seat: u32, version: u32, log_prob: f32, entropy: f32| {
            let mut record = member(&asked, 0);
            let mut segment = Segment::new(seat);
            // Versions of tokens that were not sampled are 0.
            segment.append_given(&[1], 0);
            let sampled = Sampled {
                tokens: vec![1],
                log_probs: vec![log_prob],
                entropies: vec![entropy],
                versions: vec![version],
            };
            segment.append_sampled(&sampled, 0).unwrap();
            record.segments.push(segment);
            refusal(&[record], &asked)
        };
        for version in [3, 4] {
            assert_eq!(with(0, version, -1.0, 0.0), None);
        }
        for version in [0, 2, 5, u32::MAX] {
            assert!(with(0, version, -1.0, 0.0).unwrap().contains(&format!("of weight version {version},")));
        }
        assert!(with(1, 3, -1.0, 0.0).unwrap().contains("of weight version 3,"), "seat 1 sampled nothing");
        assert_eq!(with(2, 0, -1.0, 0.0), None, "an oracle");
        assert!(with(3, 3, -1.0, 0.0).unwrap().contains("tokens of seat 3,"));
        for (log_prob, entropy) in [(f32::NAN, 0.0), (f32::NEG_INFINITY, 0.0), (0.0, f32::INFINITY)] {
            assert!(with(0, 3, log_prob, entropy).unwrap().contains("not finite"));
        }
    }

    #[test]
    fn altered_and_cut_bytes_are_refused() {
        let sent = [member(&job(7, 1), 0)];
        let bytes = encode_episodes(&sent).unwrap();
        let digest = Digest::of(&bytes);
        assert_eq!(records(&bytes, &digest).unwrap(), sent);
        let mut altered = bytes.clone();
        altered[40] ^= 1;
        assert!(matches!(records(&altered, &digest), Err(RecordRefusal::Digest)));
        let cut = &bytes[..bytes.len() - 1];
        assert!(matches!(records(cut, &Digest::of(cut)), Err(RecordRefusal::Malformed(_))));
    }
}
