//! Oracle: the shortest path on firm ice, the safest one on slippery ice.

use crate::map::{Direction, Map};

/// Discount per step; below 1, so that the oracle prefers early success.
const PATIENCE: f64 = 0.999;
/// Convergence threshold of value iteration.
const TOLERANCE: f64 = 1e-10;

/// Direction of the oracle at `place`.
pub fn advise(map: &Map, slippery: bool, place: usize) -> Direction {
    let values = if slippery { slippery_values(map) } else { firm_values(map) };
    let worth = |direction| worth(map, slippery, &values, place, direction);
    // The first of equal directions, for a deterministic result.
    let better = |best: Direction, next: Direction| if worth(next) > worth(best) { next } else { best };
    Direction::ALL.into_iter().fold(Direction::Left, better)
}

/// Value of a move: the mean over its possible results.
fn worth(map: &Map, slippery: bool, values: &[f64], place: usize, direction: Direction) -> f64 {
    if !slippery {
        return values[map.neighbour(place, direction)];
    }
    direction.slips().map(|slip| values[map.neighbour(place, slip)]).iter().sum::<f64>() / 3.0
}

/// Smaller distances have larger values.
fn firm_values(map: &Map) -> Vec<f64> {
    let value = |distance: Option<u32>| distance.map_or(f64::NEG_INFINITY, |distance| -f64::from(distance));
    map.distances().into_iter().map(value).collect()
}

/// Discounted probability of success under the optimal policy, by value iteration.
fn slippery_values(map: &Map) -> Vec<f64> {
    let goal = map.places() - 1;
    let mut values = vec![0.0; map.places()];
    values[goal] = 1.0;
    loop {
        let mut largest_change = 0.0_f64;
        for place in (0..goal).filter(|place| !map.is_hole(*place)) {
            let best = Direction::ALL.map(|direction| worth(map, true, &values, place, direction));
            let value = PATIENCE * best.into_iter().fold(0.0, f64::max);
            largest_change = largest_change.max((value - values[place]).abs());
            values[place] = value;
        }
        if largest_change < TOLERANCE {
            return values;
        }
    }
}
