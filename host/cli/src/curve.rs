//! A curve of shares as text.

/// Rows of the chart.
const ROWS: usize = 8;

/// Most columns of the chart.
const COLUMNS: usize = 60;

/// Lines of a chart of shares between 0 and 1, each with a bar from 0; the last line names the first and the last step.
/// More shares than columns are averaged by neighbours.
#[must_use]
pub fn chart(shares: &[f64]) -> Vec<String> {
    if shares.is_empty() {
        return vec![];
    }
    let per_column = shares.len().div_ceil(COLUMNS);
    let columns: Vec<f64> =
        shares.chunks(per_column).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect();
    let wide = if columns.len() * 2 <= COLUMNS { 2 } else { 1 };
    let row = |row: usize| {
        let least = (row as f64 - 0.5) / ROWS as f64;
        let bar = |share: &f64| if *share >= least { "#".repeat(wide) } else { " ".repeat(wide) };
        let label = match row {
            ROWS => "100 %",
            row if row * 2 == ROWS => " 50 %",
            _ => "     ",
        };
        format!("{label} |{}", columns.iter().map(bar).collect::<String>()).trim_end().to_owned()
    };
    let mut lines: Vec<String> = (1..=ROWS).rev().map(row).collect();
    lines.push(format!("  0 % +{}", "-".repeat(columns.len() * wide)));
    let (first, last) = ("step 1", format!("step {}", shares.len()));
    let between = (columns.len() * wide).saturating_sub(first.len() + last.len()).max(2);
    lines.push(format!("       {first}{}{last}", " ".repeat(between)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_bar_for_each_step() {
        let lines = chart(&[0.0, 0.5, 1.0]);
        assert_eq!(
            lines,
            [
                "100 % |    ##",
                "      |    ##",
                "      |    ##",
                "      |    ##",
                " 50 % |  ####",
                "      |  ####",
                "      |  ####",
                "      |  ####",
                "  0 % +------",
                "       step 1  step 3",
            ]
        );
    }

    #[test]
    fn many_steps_are_averaged() {
        let rising: Vec<f64> = (0..240).map(|step| f64::from(step) / 239.0).collect();
        let lines = chart(&rising);
        assert_eq!(lines[8], format!("  0 % +{}", "-".repeat(60)));
        assert!(lines[9].starts_with("       step 1 ") && lines[9].ends_with(" step 240"), "{}", lines[9]);
        // Every column is at least as high as the one before it.
        let widths: Vec<usize> = lines[..8].iter().map(|line| line.matches('#').count()).collect();
        assert!(widths.is_sorted(), "{widths:?}");
        assert!(chart(&[]).is_empty());
    }
}
