//! Sizes, ages and counts as text for people.

use std::fmt::Display;
use std::time::Duration;

/// A size, such as `35.2 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0), ("KiB", 1024.0)];
    let count = bytes as f64;
    match UNITS.into_iter().find(|(_, unit)| count >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", count / unit),
        None => format!("{bytes} B"),
    }
}

/// A number with at most six decimals: sums of tenths show as such. Smaller ones keep their digits.
pub fn decimal(number: f64) -> String {
    let rounded = (number * 1e6).round() / 1e6;
    if rounded == 0.0 && number != 0.0 || !rounded.is_finite() { number.to_string() } else { rounded.to_string() }
}

/// A duration in its largest unit, rounded down, such as `3 h`.
pub fn age(age: Duration) -> String {
    const UNITS: [(&str, u64); 3] = [("d", 86_400), ("h", 3600), ("min", 60)];
    let seconds = age.as_secs();
    match UNITS.into_iter().find(|(_, unit)| seconds >= *unit) {
        Some((name, unit)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

/// Parses an age, such as `90m`, `12h`, `30d` or `2w`.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number and a unit (m, h, d or w), such as 30d".to_owned();
    let unit = text.chars().next_back().ok_or_else(expected)?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(expected()),
    };
    let count: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| expected())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(expected)
}

/// A count with its noun, such as `1 step` and `2 steps`.
pub fn counted<Count: Copy + Display + PartialEq + From<u8>>(count: Count, noun: &str) -> String {
    let ending = if count == Count::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "fork")), ["0 forks", "1 fork", "2 forks"]);
    }

    #[test]
    fn sums_of_decimals_are_rounded() {
        let sum = 0.1 + 0.1 - 0.12;
        assert_ne!(sum.to_string(), "0.08");
        assert_eq!([sum, 1.0, -2.5, 1.0 / 3.0].map(decimal), ["0.08", "1", "-2.5", "0.333333"]);
        assert_eq!([0.0, 1e-9, f64::NAN].map(decimal), ["0", "0.000000001", "NaN"]);
        assert_eq!(decimal(1e300), 1e300.to_string());
    }

    #[test]
    fn sizes_have_one_decimal() {
        assert_eq!([0, 1023, 1536].map(size), ["0 B", "1023 B", "1.5 KiB"]);
        assert_eq!([36_910_000, 2 << 30].map(size), ["35.2 MiB", "2.0 GiB"]);
    }

    #[test]
    fn ages_are_rounded_down() {
        let shown = [0, 59, 60, 7199, 86_400, 2_592_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s", "59 s", "1 min", "1 h", "1 d", "30 d"]);
    }

    #[test]
    fn ages_are_parsed_with_their_unit() {
        let seconds = |text: &str| parse_age(text).ok().map(|age| age.as_secs());
        assert_eq!(
            [seconds("90m"), seconds("12h"), seconds("30d"), seconds("2w")],
            [Some(5400), Some(43_200), Some(2_592_000), Some(1_209_600)]
        );
        for wrong in ["", "d", "30", "-1d", "1.5h", "30s", "3 d", "1é", "18446744073709551615w"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
