//! Entry point of the fuzz target `bus_messages`: every reader of messages, with the checks that follow it.

use std::path::Path;

use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeId, Phase, Seed, TaskRef};
use gymkhana_registry::Digest;
use gymkhana_rollout::{GroupPlan, SamplingPlan};
use gymkhana_serve::remote::{EpisodeOutcome, EpisodeRequest};
use serde::de::DeserializeOwned;

use crate::codec::{MessageHeader, Parts};
use crate::coordinator::heartbeat::Heartbeat;
use crate::description::Description;
use crate::limits::{check_call, check_header};
use crate::messages::{PolicyAnswer, PolicyCall, ResultHeader, Verdict, WorkerJob, decode, encode};
use crate::signature::{OwnerKey, Signer, WorkerKeys};
use crate::signed::{SignedMessage, decode_signed, encode_signed};
use crate::trainer::check_records;

/// Number of forms of messages.
pub const FORMS: u8 = 13;

/// Reads a message of a form.
///
/// # Panics
/// If an accepted message is one that its reader must refuse.
pub fn read_message(form: u8, message: &[u8]) {
    match form {
        0 => drop(read_signed::<ResultHeader>(message).is_some_and(|signed| check_header(&signed.header).is_ok())),
        1 => drop(read_signed::<()>(message).is_some_and(|signed| read_call(signed.body))),
        2 => read_codec_message(message),
        3 => read_heartbeat(message),
        4 => read_description(message),
        5 => {
            read_call(message);
        }
        6 => drop(decode::<PolicyAnswer>(message)),
        7 => read_json::<Verdict>(message),
        8 => read_json::<WorkerJob>(message),
        9 => read_json::<EpisodeRequest>(message),
        10 => read_json::<EpisodeOutcome>(message),
        11 => drop(check_records(&job(), message)),
        _ => read_reply(message),
    }
}

/// Reads a signed message. Its signature is not valid and must be refused; the same parts, signed, are taken.
fn read_signed<H: DeserializeOwned>(message: &[u8]) -> Option<SignedMessage<'_, H>> {
    let signed = decode_signed::<H>(message)?;
    assert!(signed.key(&WorkerKeys::default(), "subject").is_err(), "a forged signature");
    Some(signed)
}

/// Whether a policy call is within limits. A call is written as it was read.
fn read_call(message: &[u8]) -> bool {
    let Ok(call) = decode::<PolicyCall>(message) else { return false };
    let written = encode(&call).expect("a call that was read");
    let again: PolicyCall = decode(&written).expect("a call that was written");
    assert_eq!(encode(&again).expect("a call that was read"), written);
    check_call(&call).is_ok()
}

fn read_codec_message(message: &[u8]) {
    let Some(signed) = read_signed::<MessageHeader>(message) else { return };
    let sizes = signed.header.parts;
    if let Some(Parts(parts)) = Parts::split(signed.body.to_vec(), sizes) {
        assert_eq!(parts.each_ref().map(|part| part.len() as u64), sizes);
        assert_eq!(parts.concat(), signed.body);
    }
}

fn read_heartbeat(message: &[u8]) {
    let Some(signed) = read_signed::<Heartbeat>(message) else { return };
    if signed.header.refusal(&signed.header.files).is_none() {
        let id = &signed.header.worker;
        assert!(!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "`{id}` names a subject");
    }
}

fn read_description(text: &[u8]) {
    let Ok(description) = Description::parse(text) else { return };
    description.files_digest();
    let folder = Path::new("/run");
    for file in description.files.iter().filter(|file| file.is_inside()) {
        let path = folder.join(&file.path);
        assert!(path.starts_with(folder) && !path.components().any(|part| part.as_os_str() == ".."), "`{}`", file.path);
    }
    let written = serde_json::to_vec(&description).expect("a description that was read");
    assert_eq!(Description::parse(&written).ok(), Some(description));
}

fn read_json<T: DeserializeOwned>(text: &[u8]) {
    drop(serde_json::from_slice::<T>(text));
}

/// A reply that its trainer did not sign, and the same body signed.
fn read_reply(message: &[u8]) {
    let signer = Signer::temporary();
    let key = OwnerKey::parse(&signer.public_key()).expect("a public key");
    let about = Digest::of(message);
    assert!(key.read(&about, message).is_none(), "a forged reply");
    let reply = signer.state(&about, message).expect("signed");
    assert_eq!(key.read(&about, &reply), Some(message));
    let sent = encode_signed("subject", &(), message, &signer).expect("signed");
    let read = decode_signed::<()>(&sent).expect("a message that was written");
    assert!(read.key(&key.alone(), "subject").is_ok() && read.body == message);
}

/// A group of two episodes.
fn job() -> WorkerJob {
    let id = EpisodeId { stage: 0, phase: Phase::Train, step: 3, group: 7, member: 0, attempt: 0 };
    let task = TaskRef { split: "train".to_owned(), index: 0 };
    let group = GroupPlan { id, task, seeds: Seed(9), sampling: Sampling::GREEDY, place: 0, size: 2, turns: None };
    let group = gymkhana_orchestration::remote::GroupJob { environment: 0, group, plan: SamplingPlan::default() };
    WorkerJob { number: 7, group }
}
