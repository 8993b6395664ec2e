//! Limits of what a worker may send.

use crate::messages::{JobEnd, PolicyCall, PolicyCallRefusal, PolicyRequest, ResultHeader};

/// Deliveries after which a job is a fault: it ends every worker that takes it.
pub(crate) const MAX_DELIVERIES: u64 = 32;
/// Longest name of a worker, in bytes.
pub(crate) const MAX_NAME: usize = 128;
/// Longest reason of a failure, in bytes.
pub(crate) const MAX_REASON: usize = 8 << 10;
/// Most stop tokens of a call.
const MAX_STOP_TOKENS: usize = 4096;
/// Most stop texts of a call.
const MAX_STOP_TEXTS: usize = 1024;
/// Most bytes of all stop texts of a call.
const MAX_STOP_BYTES: usize = 64 << 10;
/// Largest records of a group, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 30;

/// Reason why a result is refused before its records are read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderRefusal {
    #[error(transparent)]
    Sender(#[from] PolicyCallRefusal),
    #[error("the reason of a failure has {0} bytes, above the limit of {MAX_REASON}")]
    Reason(usize),
    #[error("its records are larger than {MAX_RECORD_BYTES} bytes")]
    Records,
    #[error("{0}")]
    Versions(String),
    #[error("the worker has other plugins")]
    Plugins,
}

/// Checks the sender of a message.
fn check_sender(worker: &str, delivery: u64) -> Result<(), PolicyCallRefusal> {
    let (found, most) = (worker.len() as u64, MAX_NAME as u64);
    if found == 0 || found > most {
        return Err(PolicyCallRefusal::Name { found, most });
    }
    if delivery == 0 || delivery > MAX_DELIVERIES {
        return Err(PolicyCallRefusal::Delivery { found: delivery, most: MAX_DELIVERIES });
    }
    Ok(())
}

/// Checks a policy call.
///
/// # Errors
/// The first limit that it exceeds.
pub(crate) fn check_call(call: &PolicyCall) -> Result<(), PolicyCallRefusal> {
    check_sender(&call.worker, call.delivery)?;
    let PolicyRequest::Generate { stop, stop_texts, .. } = &call.request else { return Ok(()) };
    let within = |found: usize, most: usize| if found <= most { None } else { Some((found as u64, most as u64)) };
    if let Some((found, most)) = within(stop.len(), MAX_STOP_TOKENS) {
        return Err(PolicyCallRefusal::StopTokens { found, most });
    }
    if let Some((found, most)) = within(stop_texts.len(), MAX_STOP_TEXTS) {
        return Err(PolicyCallRefusal::StopTexts { found, most });
    }
    match within(stop_texts.iter().map(String::len).sum(), MAX_STOP_BYTES) {
        Some((found, most)) => Err(PolicyCallRefusal::StopBytes { found, most }),
        None => Ok(()),
    }
}

/// Checks the texts and sizes of a result's header.
///
/// # Errors
/// The first limit that it exceeds.
pub(crate) fn check_header(header: &ResultHeader) -> Result<(), HeaderRefusal> {
    // The last worker of a job reports that it was delivered too often.
    check_sender(&header.worker, header.delivery.min(MAX_DELIVERIES))?;
    let reason = match &header.end {
        JobEnd::Played => 0,
        JobEnd::Fault(why) | JobEnd::Failed(why) => why.len(),
    };
    let longest = reason.max(header.failed_forks.1.len());
    if longest > MAX_REASON {
        return Err(HeaderRefusal::Reason(longest));
    }
    if header.object.is_some_and(|bytes| bytes > MAX_RECORD_BYTES) {
        return Err(HeaderRefusal::Records);
    }
    Ok(())
}

/// The beginning of a reason that is too long for a message.
pub(crate) fn cut_reason(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(MAX_REASON));
    why
}

#[cfg(test)]
mod tests {
    use gymkhana_policy::Sampling;
    use gymkhana_record::Seed;
    use gymkhana_registry::Digest;

    use super::*;
    use crate::description::Versions;

    fn call(worker: &str, delivery: u64, stop: usize, stop_texts: Vec<String>) -> PolicyCall {
        let request = PolicyRequest::Generate {
            conversation: 0,
            place: 0,
            tokens: vec![1],
            max_tokens: 1,
            stop: vec![0; stop],
            stop_texts,
            sampling: Sampling::GREEDY,
            seed: Seed(0),
        };
        PolicyCall { worker: worker.to_owned(), job: 0, delivery, call: 0, seat: 0, request }
    }

    #[test]
    fn calls_above_a_limit_are_refused_by_name() {
        let texts = |count: usize, bytes: usize| vec!["a".repeat(bytes); count];
        assert_eq!(check_call(&call("w", 1, 0, vec![])), Ok(()));
        assert_eq!(check_call(&call(&"w".repeat(128), 32, 4096, texts(1024, 64))), Ok(()));
        for (wrong, words) in [
            (call("", 1, 0, vec![]), "has 0 bytes; it must have 1 to 128"),
            (call(&"w".repeat(129), 1, 0, vec![]), "has 129 bytes"),
            (call("w", 0, 0, vec![]), "is 0; it must be 1 to 32"),
            (call("w", u64::MAX, 0, vec![]), "is 18446744073709551615; it must be 1 to 32"),
            (call("w", 1, 4097, vec![]), "4097 stop tokens, above the limit of 4096"),
            (call("w", 1, 0, texts(1025, 1)), "1025 stop texts, above the limit of 1024"),
            (call("w", 1, 0, texts(1, 65_537)), "65537 bytes, above the limit of 65536"),
        ] {
            let refusal = check_call(&wrong).unwrap_err().to_string();
            assert!(refusal.contains(words), "{refusal}");
        }
    }

    #[test]
    fn headers_above_a_limit_are_refused_by_name() {
        let sound = ResultHeader {
            worker: "w".to_owned(),
            versions: Versions::own(),
            lock: Digest::of(b"lock"),
            job: 0,
            delivery: 33,
            end: JobEnd::Fault("why".to_owned()),
            failed_forks: (0, String::new()),
            records: Digest::of(b""),
            object: Some(1 << 30),
        };
        assert_eq!(check_header(&sound), Ok(()));
        let long = "é".repeat(5000);
        assert_eq!(cut_reason(long.clone()).len(), 8192);
        for (wrong, words) in [
            (ResultHeader { worker: "w".repeat(1000), ..sound.clone() }, "has 1000 bytes"),
            (ResultHeader { end: JobEnd::Failed(long.clone()), ..sound.clone() }, "has 10000 bytes"),
            (ResultHeader { failed_forks: (1, long), ..sound.clone() }, "has 10000 bytes"),
            (ResultHeader { object: Some((1 << 30) + 1), ..sound.clone() }, "larger than 1073741824 bytes"),
        ] {
            let refusal = check_header(&wrong).unwrap_err().to_string();
            assert!(refusal.contains(words), "{refusal}");
        }
    }
}
