//! Numbers of the requests of each place at a worker: each is performed once, and a repeated one gets the first answer.

use std::collections::{HashMap, VecDeque};

use super::messages::PlaceId;

/// Most released places that are kept, so that a late copy of a request opens none of them again.
const MAX_RELEASED: usize = 4096;

/// What a worker does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestDecision {
    /// Perform it.
    Perform,
    /// It is performed, or being performed: answer as the first time.
    Repeat,
    /// It is older than the last one, whose answer the front has: ignore it.
    Old,
    /// The worker does not have the place, or has missed a request.
    Unknown,
    /// No place is free.
    Full,
}

/// The last request of each place.
#[derive(Debug, Default)]
pub(crate) struct RequestLedger {
    last: HashMap<PlaceId, u64>,
    /// Places that were released, the oldest first.
    released: VecDeque<PlaceId>,
}

impl RequestLedger {
    /// Judges a request; `opens` if it brings an episode into the place. At most `places` places are known.
    pub(crate) fn judge(&mut self, place: PlaceId, number: u64, opens: bool, places: usize) -> RequestDecision {
        let known = self.last.len();
        match self.last.get_mut(&place) {
            Some(last) if number == *last => RequestDecision::Repeat,
            Some(last) if number < *last => RequestDecision::Old,
            Some(last) if number == *last + 1 => {
                *last = number;
                RequestDecision::Perform
            }
            None if self.released.contains(&place) => RequestDecision::Unknown,
            None if opens && known >= places => RequestDecision::Full,
            None if opens => {
                self.last.insert(place, number);
                RequestDecision::Perform
            }
            Some(_) | None => RequestDecision::Unknown,
        }
    }

    /// Whether this is the last request of the place.
    pub(crate) fn is_last(&self, place: PlaceId, number: u64) -> bool {
        self.last.get(&place) == Some(&number)
    }

    /// Releases a place for good.
    pub(crate) fn release(&mut self, place: PlaceId) {
        self.last.remove(&place);
        if !self.released.contains(&place) {
            self.released.push_back(place);
        }
        if self.released.len() > MAX_RELEASED {
            self.released.pop_front();
        }
    }

    /// Number of known places.
    pub(crate) fn len(&self) -> usize {
        self.last.len()
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Seed;

    use super::*;

    #[test]
    fn each_request_is_performed_once() {
        let (place, other) = (PlaceId(1), PlaceId(2));
        let mut ledger = RequestLedger::default();
        assert_eq!(ledger.judge(place, 5, false, 1), RequestDecision::Unknown);
        assert_eq!(ledger.judge(place, 5, true, 1), RequestDecision::Perform);
        assert_eq!(ledger.judge(place, 5, true, 1), RequestDecision::Repeat);
        assert_eq!(ledger.judge(other, 1, true, 1), RequestDecision::Full);
        assert_eq!(ledger.judge(place, 6, false, 1), RequestDecision::Perform);
        assert_eq!(ledger.judge(place, 5, true, 1), RequestDecision::Old);
        assert_eq!(ledger.judge(place, 8, false, 1), RequestDecision::Unknown, "request 7 is missing");
        ledger.release(place);
        assert_eq!(ledger.len(), 0);
        assert_eq!(ledger.judge(place, 5, true, 1), RequestDecision::Unknown, "a late copy of the first request");
        assert_eq!(ledger.judge(other, 1, true, 1), RequestDecision::Perform);
    }

    /// Requests that are lost, repeated and overtaken: those that are performed are 0, 1, 2… without a gap.
    #[test]
    fn requests_are_performed_in_order_whatever_the_network_does() {
        for round in 0..200 {
            let mut random = Seed(7).child(round).stream();
            let mut ledger = RequestLedger::default();
            let (mut asked, mut performed) = (0, Vec::new());
            for _ in 0..100 {
                // The front repeats its present request, and an old copy may arrive late.
                let number = if random.below(3) == 0 { random.below(asked + 1) } else { asked };
                match ledger.judge(PlaceId(1), number, number == 0, 1) {
                    RequestDecision::Perform => performed.push(number),
                    RequestDecision::Repeat => assert_eq!(performed.last(), Some(&number)),
                    RequestDecision::Old => assert!(performed.last().is_some_and(|last| number < *last)),
                    RequestDecision::Unknown => assert_eq!((performed.len(), number > 0), (0, true)),
                    RequestDecision::Full => unreachable!("one place"),
                }
                // The front goes on when it has the answer.
                if performed.last() == Some(&asked) && random.below(2) == 0 {
                    asked += 1;
                }
            }
            assert!(performed.iter().copied().eq(0..performed.len() as u64), "{performed:?}");
        }
    }
}
