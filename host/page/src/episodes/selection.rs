//! The episodes of one page of the table: filtered, sorted and cut.
//!
//! Conditions on rows are decided in memory. Conditions that need records read them in chunks from where the last page
//! ended, for a bounded time, so that a rare text in a large run takes several pages and not minutes.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use gymkhana_record::EpisodeRecord;
use gymkhana_store::{EpisodeRow, EpisodeTable, StoreError};

use super::filter::EpisodeFilter;
use crate::error::PageProblem;
use crate::query::Query;

/// Records read at a time.
const CHUNK: usize = 128;
/// Time for the search of one page.
const PATIENCE: Duration = Duration::from_secs(2);

/// Order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As stored: by the time of ending.
    Stored,
    Newest,
    Id,
    HighestReward,
    LowestReward,
    MostTokens,
    MostCalls,
}

/// Orders by their words.
pub(crate) const ORDERS: [(&str, Order); 7] = [
    ("stored", Order::Stored),
    ("newest", Order::Newest),
    ("id", Order::Id),
    ("highest-reward", Order::HighestReward),
    ("lowest-reward", Order::LowestReward),
    ("most-tokens", Order::MostTokens),
    ("most-calls", Order::MostCalls),
];

/// What a page of the table asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wish {
    pub filter: EpisodeFilter,
    pub order: Order,
    /// Number of episodes before the page, among those whose rows meet the filter.
    pub from: usize,
    pub size: usize,
}

impl Wish {
    /// Reads a wish from a query.
    pub fn parse(query: &Query) -> Result<Self, PageProblem> {
        let order = query.choice("order", &ORDERS, "an order such as newest")?;
        let size = query.parsed::<usize>("size", "a number from 1 to 500")?.unwrap_or(50).clamp(1, 500);
        Ok(Self {
            filter: EpisodeFilter::parse(query)?,
            order: order.unwrap_or(Order::Stored),
            from: query.parsed("from", "a number of episodes")?.unwrap_or(0),
            size,
        })
    }
}

/// The episodes of a page.
pub(crate) struct PageEpisodes {
    /// Positions in the table with the records, without their segments.
    pub found: Vec<(usize, EpisodeRecord)>,
    /// Number of episodes whose rows meet the filter.
    pub candidates: usize,
    /// Number of these episodes before the next page; `None` on the last page.
    pub next: Option<usize>,
    /// Whether the time ended before the page was full.
    pub is_cut: bool,
}

/// Finds the episodes of a page. `stages` are the names of the run's stages.
pub(crate) fn select(table: &EpisodeTable, wish: &Wish, stages: &[String]) -> Result<PageEpisodes, StoreError> {
    let mut candidates: Vec<(usize, &EpisodeRow)> =
        table.rows().enumerate().filter(|(_, row)| wish.filter.admits_row(row)).collect();
    let count = candidates.len();
    let from = wish.from.min(count);
    if wish.filter.needs_records() {
        sort(&mut candidates, wish.order, count);
        return search(table, wish, stages, &candidates, from);
    }
    let end = (from + wish.size).min(count);
    sort(&mut candidates, wish.order, end);
    let positions: Vec<usize> = candidates[from..end].iter().map(|(position, _)| *position).collect();
    let next = (end < count).then_some(end);
    Ok(PageEpisodes { found: table.outlines(&positions)?, candidates: count, next, is_cut: false })
}

/// Sorts so that the first `needed` candidates are in order.
fn sort(candidates: &mut Vec<(usize, &EpisodeRow)>, order: Order, needed: usize) {
    if order == Order::Stored || needed == 0 {
        return;
    }
    let compare = |one: &(usize, &EpisodeRow), other: &(usize, &EpisodeRow)| {
        by(order, one.1, other.1).then_with(|| match order {
            Order::Newest => other.0.cmp(&one.0),
            _ => one.0.cmp(&other.0),
        })
    };
    if needed < candidates.len() {
        candidates.select_nth_unstable_by(needed - 1, compare);
        candidates[..needed].sort_unstable_by(compare);
    } else {
        candidates.sort_unstable_by(compare);
    }
}

fn by(order: Order, one: &EpisodeRow, other: &EpisodeRow) -> Ordering {
    // Episodes without rewards come last in both directions.
    let reward = |row: &EpisodeRow, absent: f64| row.reward.unwrap_or(absent);
    match order {
        Order::Stored | Order::Newest => Ordering::Equal,
        Order::Id => one.id.cmp(&other.id),
        Order::HighestReward => reward(other, f64::NEG_INFINITY).total_cmp(&reward(one, f64::NEG_INFINITY)),
        Order::LowestReward => reward(one, f64::INFINITY).total_cmp(&reward(other, f64::INFINITY)),
        Order::MostTokens => other.sampled_tokens.cmp(&one.sampled_tokens),
        Order::MostCalls => other.calls.cmp(&one.calls),
    }
}

/// Searches records from a candidate on until the page is full or the time is over.
fn search(
    table: &EpisodeTable,
    wish: &Wish,
    stages: &[String],
    candidates: &[(usize, &EpisodeRow)],
    from: usize,
) -> Result<PageEpisodes, StoreError> {
    let start = Instant::now();
    let (mut found, mut next) = (Vec::new(), from);
    while next < candidates.len() && found.len() < wish.size && (next == from || start.elapsed() < PATIENCE) {
        let end = (next + CHUNK).min(candidates.len());
        let positions: Vec<usize> = candidates[next..end].iter().map(|(position, _)| *position).collect();
        for (position, record) in table.outlines(&positions)? {
            next += 1;
            if wish.filter.admits(table, position, &record, stages)? {
                found.push((position, record));
                if found.len() == wish.size {
                    break;
                }
            }
        }
    }
    let is_cut = next < candidates.len() && found.len() < wish.size;
    let next = (next < candidates.len()).then_some(next);
    Ok(PageEpisodes { found, candidates: candidates.len(), next, is_cut })
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Ending, EpisodeId, Phase};

    use super::*;

    fn rows() -> Vec<EpisodeRow> {
        let row = |(member, reward): (u32, Option<f64>)| EpisodeRow {
            id: EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member, attempt: 0 },
            split: "train".into(),
            task: 0,
            ending: Ending::Terminated,
            success: false,
            reward,
            calls: u64::from(member),
            sampled_tokens: 0,
        };
        [(2, Some(0.5)), (0, None), (1, Some(-1.0)), (3, Some(2.0))].into_iter().map(row).collect()
    }

    #[test]
    fn the_first_rows_are_in_the_wished_order() {
        let rows = rows();
        let cases: [(Order, [usize; 4]); 6] = [
            (Order::Stored, [0, 1, 2, 3]),
            (Order::Newest, [3, 2, 1, 0]),
            (Order::Id, [1, 2, 0, 3]),
            (Order::HighestReward, [3, 0, 2, 1]),
            (Order::LowestReward, [2, 0, 3, 1]),
            (Order::MostCalls, [3, 0, 2, 1]),
        ];
        for (order, expected) in cases {
            for needed in 1..=4 {
                let mut candidates: Vec<(usize, &EpisodeRow)> = rows.iter().enumerate().collect();
                sort(&mut candidates, order, needed);
                let found: Vec<usize> = candidates[..needed].iter().map(|(position, _)| *position).collect();
                assert_eq!(found, expected[..needed], "{order:?}");
            }
        }
    }
}
