//! Replies of the run's policy: their number, their length and how many a limit of tokens cut.

use gymkhana_orchestration::environments::Environments;
use gymkhana_record::EpisodeRecord;

/// Counts of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Replies {
    /// Replies.
    pub count: usize,
    /// Sampled tokens.
    pub tokens: usize,
    /// Tokens of thoughts among them.
    pub thoughts: usize,
    /// Replies that no stop token or stop text ended.
    pub cut: usize,
}

impl Replies {
    /// Replies of the policy's own seats in these episodes.
    pub fn of<'a>(
        records: impl IntoIterator<Item = &'a EpisodeRecord>,
        own_seats: &[u32],
        environments: &Environments,
    ) -> Self {
        let mut replies = Self::default();
        for record in records {
            let own_turns = record.policy_turns.iter().filter(|turn| own_seats.contains(&turn.seat));
            replies.thoughts += own_turns.map(|turn| turn.thought_tokens as usize).sum::<usize>();
            let own_segments = record.segments.iter().filter(|segment| own_seats.contains(&segment.seat()));
            for reply in own_segments.flat_map(|segment| segment.replies().map(|place| &segment.tokens()[place])) {
                replies.count += 1;
                replies.tokens += reply.len();
                replies.cut += usize::from(is_cut(environments, record, reply));
            }
        }
        replies
    }

    /// Share of the replies that were cut, 0 to 1.
    pub fn cut_share(self) -> f64 {
        self.cut as f64 / self.count.max(1) as f64
    }
}

/// Whether a limit of tokens cut a reply, by the stop texts of its environment.
pub(crate) fn is_cut(environments: &Environments, record: &EpisodeRecord, reply: &[u32]) -> bool {
    environments.of(record).is_ok_and(|environment| environment.rollout.is_cut(reply))
}
