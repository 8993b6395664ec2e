//! Assignment of actual calls to expected calls.

/// Optimal assignment: gives each row a distinct column so that the sum of values is maximal; surplus rows get `None`.
/// Hungarian method with potentials, in O(rows² · columns) time, or the same with rows and columns exchanged.
pub fn best(worth: &[Vec<f64>], columns: usize) -> Vec<Option<usize>> {
    let rows = worth.len();
    if rows > columns {
        let turned: Vec<Vec<f64>> = (0..columns).map(|column| worth.iter().map(|row| row[column]).collect()).collect();
        let mut found = vec![None; rows];
        for (column, row) in best(&turned, rows).into_iter().enumerate() {
            if let Some(row) = row {
                found[row] = Some(column);
            }
        }
        return found;
    }
    // Indices start at 1; column 0 means unassigned. `row_of[column]` is 0 for a free column.
    let (mut row_price, mut column_price) = (vec![0.0; rows + 1], vec![0.0; columns + 1]);
    let (mut row_of, mut before) = (vec![0; columns + 1], vec![0; columns + 1]);
    for row in 1..=rows {
        row_of[0] = row;
        let mut column = 0;
        let (mut slack, mut seen) = (vec![f64::INFINITY; columns + 1], vec![false; columns + 1]);
        while row_of[column] != 0 {
            seen[column] = true;
            let current = row_of[column];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for other in (1..=columns).filter(|other| !seen[*other]) {
                let loss = -worth[current - 1][other - 1] - row_price[current] - column_price[other];
                if loss < slack[other] {
                    (slack[other], before[other]) = (loss, column);
                }
                if slack[other] < step {
                    (step, next) = (slack[other], other);
                }
            }
            for other in 0..=columns {
                if seen[other] {
                    row_price[row_of[other]] += step;
                    column_price[other] -= step;
                } else {
                    slack[other] -= step;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut found = vec![None; rows];
    for (column, row) in row_of.iter().enumerate().skip(1).filter(|(_, row)| **row != 0) {
        found[row - 1] = Some(column - 1);
    }
    found
}

/// Greedy assignment: each row in order takes the remaining column of the largest value, the first of equals; values of
/// 0 are not assigned. The paper's program uses it.
pub fn greedy(worth: &[Vec<f64>], columns: usize) -> Vec<Option<usize>> {
    let mut free = vec![true; columns];
    let mut take = |row: &Vec<f64>| {
        let left = (0..columns).filter(|column| free[*column] && row[*column] > 0.0);
        let chosen = left.reduce(|best, column| if row[column] > row[best] { column } else { best })?;
        free[chosen] = false;
        Some(chosen)
    };
    worth.iter().map(&mut take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_sdk::Rng;

    fn sum(worth: &[Vec<f64>], found: &[Option<usize>]) -> f64 {
        let mut taken: Vec<usize> = found.iter().flatten().copied().collect();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), found.iter().flatten().count(), "a column was given twice: {found:?}");
        worth.iter().zip(found).filter_map(|(row, column)| column.map(|column| row[column])).sum()
    }

    /// Maximal sum by exhaustive search.
    fn tried(worth: &[Vec<f64>], used: &mut Vec<bool>) -> f64 {
        let Some((row, rest)) = worth.split_first() else { return 0.0 };
        let mut most = tried(rest, used);
        for column in 0..used.len() {
            if !used[column] {
                used[column] = true;
                most = most.max(row[column] + tried(rest, used));
                used[column] = false;
            }
        }
        most
    }

    #[test]
    fn nothing_is_better_than_the_best() {
        let mut rng = Rng::new(4);
        for _ in 0..400 {
            let (rows, columns) = (rng.below(6) as usize, rng.below(6) as usize);
            let worth: Vec<Vec<f64>> =
                (0..rows).map(|_| (0..columns).map(|_| rng.below(5) as f64 / 2.0).collect()).collect();
            let (best, greedy) = (best(&worth, columns), greedy(&worth, columns));
            let most = tried(&worth, &mut vec![false; columns]);
            assert!((sum(&worth, &best) - most).abs() < 1e-9, "{worth:?}: {best:?}");
            assert!(sum(&worth, &greedy) <= most + 1e-9);
        }
    }

    #[test]
    fn greedy_assignment_serves_rows_in_order() {
        let worth = vec![vec![2.0, 1.9], vec![1.9, 0.0]];
        assert_eq!(greedy(&worth, 2), [Some(0), None]);
        assert_eq!(best(&worth, 2), [Some(1), Some(0)]);
    }
}
