//! Two episodes or sessions in one instance: what one does, the other must not notice.

use std::num::NonZeroU32;

use crate::bench::Bench;
use crate::finding::{Finding, passed, skipped, stop};
use crate::path::Path;
use crate::stage::Stage;

/// Acts of a path.
const LENGTH: usize = 8;

pub(crate) async fn check(bench: &Bench) -> Finding {
    let beginnings = bench.beginnings();
    if beginnings.is_empty() {
        return skipped(bench.nothing_to_play());
    }
    let mut pairs = 0;
    for (number, beginning) in beginnings.iter().enumerate() {
        let other = &beginnings[(number + 1) % beginnings.len()];
        let seeds = [bench.seed("apart").child(number), bench.seed("apart").child(number).child("other")];
        let paths = [
            Path::walk(bench, beginning, seeds[0], LENGTH).await?.0,
            Path::walk(bench, other, seeds[1], LENGTH).await?.0,
        ];
        let shared = bench.plugin.shared_by(NonZeroU32::MIN.saturating_add(7));
        let mut stages: Vec<Stage> = Vec::new();
        for path in &paths {
            let (begun, stage) = Path::begin(bench, &shared, &path.beginning, &bench.options, path.seed).await?;
            if begun.said != path.said[..1] {
                let seen = crate::finding::parting(&path.said[0], &begun.said[0]);
                return Err(stop(format!("{} began otherwise beside another: {seen}", path.place()), CHANGE));
            }
            stages.push(stage);
        }
        for turn in 0..LENGTH {
            for (path, stage) in paths.iter().zip(&mut stages) {
                let one = Path { acts: path.acts[..path.acts.len().min(turn + 1)].to_vec(), ..path.clone() };
                if let Some(parting) = one.retrace(bench, stage, turn).await? {
                    let seen = format!("{} went otherwise beside another: {parting}", path.place());
                    return Err(stop(seen, CHANGE));
                }
            }
        }
        pairs += 1;
    }
    passed(format!("{pairs} pairs in one instance each went as they went alone"))
}

const CHANGE: &str = "keep all state in the episode or session itself: none in statics, globals or module variables";
