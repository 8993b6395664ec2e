//! A curve in one line of block characters.

/// Blocks of increasing height.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Shares from 0 to 1 as at most `width` blocks, each the mean of consecutive values.
pub(super) fn blocks(shares: &[f64], width: usize) -> String {
    let columns = shares.len().min(width);
    (0..columns)
        .map(|column| {
            let part = &shares[column * shares.len() / columns..(column + 1) * shares.len() / columns];
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            let height = (mean.clamp(0.0, 1.0) * BLOCKS.len() as f64) as usize;
            BLOCKS[height.min(BLOCKS.len() - 1)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_blocks_by_eighths() {
        assert_eq!(blocks(&[0.0, 0.124, 0.125, 0.5, 0.99, 1.0], 10), "▁▁▂▅██");
        assert_eq!(blocks(&[], 10), "");
    }

    #[test]
    fn more_values_than_columns_are_averaged() {
        assert_eq!(blocks(&[0.0, 1.0, 0.0, 0.0, 1.0, 1.0], 3), "▅▁█");
        assert_eq!(blocks(&[1.0; 100], 40).chars().count(), 40);
    }
}
