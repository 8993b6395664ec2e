//! Charts as SVG that the server draws: curves of several runs over one axis, and histograms.

use maud::{Markup, html};

use crate::words::{number, visible};

/// Size of a curve's drawing, in units of its view box.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 30.0;
/// Most points of a drawn curve; longer ones are thinned.
const POINTS: usize = 600;
/// Number of colours in the style sheet.
const COLOURS: usize = 8;

/// A curve of one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// Index of the run, which decides about the colour.
    pub run: usize,
    /// Name of the run.
    pub name: String,
    /// Points, by ascending first number.
    pub points: Vec<(f64, f64)>,
}

/// Class of a run's colour.
pub(crate) fn colour(run: usize) -> String {
    format!("run-{}", run % COLOURS)
}

/// Exponential moving average with a weight of the past from 0 to 1.
pub(crate) fn smoothed(points: &[(f64, f64)], past: f64) -> Vec<(f64, f64)> {
    let mut mean = None;
    let smooth = |(x, y): &(f64, f64)| {
        let value = mean.map_or(*y, |mean: f64| past * mean + (1.0 - past) * y);
        mean = Some(value);
        (*x, value)
    };
    points.iter().map(smooth).collect()
}

/// Points of a curve with at most `most` points: the lowest and the highest of each stretch, so that peaks stay.
fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(most / 2);
    let mut kept = Vec::with_capacity(most);
    for part in points.chunks(stretch) {
        let lowest = part.iter().enumerate().min_by(|one, other| one.1.1.total_cmp(&other.1.1));
        let highest = part.iter().enumerate().max_by(|one, other| one.1.1.total_cmp(&other.1.1));
        if let (Some((low, first)), Some((high, second))) = (lowest, highest) {
            if low == high {
                kept.push(*first);
            } else if low < high {
                kept.extend([*first, *second]);
            } else {
                kept.extend([*second, *first]);
            }
        }
    }
    kept
}

/// A range of values and its drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// An axis over these values; a little wider if they are equal.
    fn over(values: impl Iterator<Item = f64> + Clone, start: f64, end: f64) -> Self {
        let from = values.clone().fold(f64::INFINITY, f64::min);
        let to = values.fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = if from.is_finite() && to.is_finite() { (from, to) } else { (0.0, 1.0) };
        let pad = if from == to { from.abs().max(1.0) * 0.5 } else { 0.0 };
        Self { from: from - pad, to: to + pad, start, end }
    }

    fn place(self, value: f64) -> f64 {
        self.start + (value - self.from) / (self.to - self.from) * (self.end - self.start)
    }

    /// Round values inside the range, about `count` of them.
    fn ticks(self, count: f64) -> Vec<f64> {
        let rough = (self.to - self.from) / count;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last.min(first.saturating_add(20))).map(|tick| tick as f64 * step).collect()
    }
}

/// A figure with the curves of one quantity.
pub(crate) fn curves(title: &str, unit: &str, x_name: &str, curves: &[Curve], past: f64) -> Markup {
    let xs = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
    let ys = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let x = Axis::over(xs, LEFT, WIDTH - RIGHT);
    let y = Axis::over(ys, HEIGHT - BOTTOM, TOP);
    let title = visible(title);
    html! {
        figure.chart data-from=(x.from) data-to=(x.to) data-low=(y.from) data-high=(y.to) {
            figcaption { strong { (title) } @if !unit.is_empty() { " " span.unit { "(" (unit) ")" } } }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(description(&title, x_name, curves)) {
                (grid(x, y))
                @for curve in curves {
                    @let points = thinned(&curve.points, POINTS);
                    @if past > 0.0 {
                        polyline class={ "raw " (colour(curve.run)) } points=(path(&points, x, y)) {}
                        polyline class=(colour(curve.run)) points=(path(&thinned(&smoothed(&curve.points, past), POINTS), x, y)) {}
                    } @else {
                        polyline class=(colour(curve.run)) points=(path(&points, x, y)) {}
                    }
                    @if let [(at, value)] = points[..] {
                        circle class=(colour(curve.run)) cx=(place(x.place(at))) cy=(place(y.place(value))) r="3" {}
                    }
                }
                text.axis x=((LEFT + WIDTH - RIGHT) / 2.0) y=(HEIGHT - 4.0) text-anchor="middle" { (x_name) }
            }
            ul.last {
                @for curve in curves {
                    @if let Some((_, value)) = curve.points.last() {
                        li class=(colour(curve.run)) { span.mark aria-hidden="true" {} (visible(&curve.name)) ": " (number(*value)) }
                    }
                }
            }
        }
    }
}

/// The chart in words: for each run the first and last value and the range.
fn description(title: &str, x_name: &str, curves: &[Curve]) -> String {
    let mut text = format!("{title} by {x_name}.");
    for curve in curves {
        let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else { continue };
        let lowest = curve.points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let highest = curve.points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
        text.push_str(&format!(
            " {}: from {} to {}, between {} and {}.",
            visible(&curve.name),
            number(first.1),
            number(last.1),
            number(lowest),
            number(highest)
        ));
    }
    text
}

fn grid(x: Axis, y: Axis) -> Markup {
    html! {
        @for tick in y.ticks(5.0) {
            @let at = place(y.place(tick));
            line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at) y2=(at) {}
            text.tick x=(LEFT - 4.0) y=(at) dy="4" text-anchor="end" { (number(tick)) }
        }
        @for tick in x.ticks(6.0) {
            @let at = place(x.place(tick));
            line.grid x1=(at) x2=(at) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
            text.tick x=(at) y=(HEIGHT - BOTTOM + 12.0) text-anchor="middle" { (number(tick)) }
        }
    }
}

fn path(points: &[(f64, f64)], x: Axis, y: Axis) -> String {
    let points: Vec<String> =
        points.iter().map(|(at, value)| format!("{},{}", place(x.place(*at)), place(y.place(*value)))).collect();
    points.join(" ")
}

/// A coordinate with one digit after the point.
fn place(value: f64) -> String {
    format!("{value:.1}")
}

/// Counts of values in equal parts of their range.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueHistogram {
    from: f64,
    to: f64,
    counts: Vec<usize>,
}

impl ValueHistogram {
    /// The histogram of finite values; `None` of none.
    pub fn of(values: &[f64], parts: usize) -> Option<Self> {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let from = values.iter().copied().reduce(f64::min)?;
        let to = values.iter().copied().reduce(f64::max)?;
        let width = to - from;
        let parts = if width > 0.0 { parts } else { 1 };
        let mut counts = vec![0; parts];
        for value in values {
            let part = if width > 0.0 { ((value - from) / width * parts as f64) as usize } else { 0 };
            counts[part.min(parts - 1)] += 1;
        }
        Some(Self { from, to, counts })
    }

    /// The drawing, with its name.
    pub fn draw(&self, title: &str) -> Markup {
        let highest = self.counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let width = 200.0 / self.counts.len() as f64;
        let title = visible(title);
        let (from, to) = (number(self.from), number(self.to));
        let label = format!("Distribution of {title} from {from} to {to}: {:?}", self.counts);
        html! {
            svg.histogram viewBox="0 0 200 76" role="img" aria-label=(label) {
                @for (part, count) in self.counts.iter().enumerate() {
                    @let height = 56.0 * *count as f64 / highest;
                    rect x=(place(part as f64 * width)) y=(place(58.0 - height)) width=(place((width - 1.0).max(1.0))) height=(place(height)) {}
                }
                line.grid x1="0" x2="200" y1="58" y2="58" {}
                text.tick x="0" y="72" { (from) }
                text.tick x="200" y="72" text-anchor="end" { (to) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_is_an_exponential_average() {
        let points = [(0.0, 1.0), (1.0, 0.0), (2.0, 0.0)];
        assert_eq!(smoothed(&points, 0.5), [(0.0, 1.0), (1.0, 0.5), (2.0, 0.25)]);
        assert_eq!(smoothed(&points, 0.0), points);
    }

    #[test]
    fn peaks_survive_thinning() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|x| (f64::from(x), 0.0)).collect();
        points[5_001].1 = 7.0;
        points[7_777].1 = -7.0;
        let kept = thinned(&points, 100);
        assert!(kept.len() <= 100, "{}", kept.len());
        assert!(kept.contains(&(5_001.0, 7.0)) && kept.contains(&(7_777.0, -7.0)));
        assert!(kept.is_sorted_by(|one, other| one.0 <= other.0));
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis { from: 0.13, to: 0.97, start: 0.0, end: 1.0 };
        // A fourth of the range is 0.21; the next round step is 0.5.
        assert_eq!(axis.ticks(4.0), [0.5]);
        let axis = Axis { from: 0.0, to: 100.0, start: 0.0, end: 1.0 };
        assert_eq!(axis.ticks(6.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let constant = Axis::over([3.0, 3.0].into_iter(), 0.0, 1.0);
        assert_eq!((constant.from, constant.to), (1.5, 4.5));
    }

    #[test]
    fn values_are_counted_in_equal_parts() {
        // Parts of [0, 1] in fourths: 0 and 0.1 | 0.25 | 0.5 | 1 belongs to the last one.
        let histogram = ValueHistogram::of(&[0.0, 0.1, 0.25, 0.5, 1.0, f64::NAN], 4).unwrap();
        assert_eq!(histogram, ValueHistogram { from: 0.0, to: 1.0, counts: vec![2, 1, 1, 1] });
        assert_eq!(ValueHistogram::of(&[2.0, 2.0], 4).unwrap().counts, [2]);
        assert_eq!(ValueHistogram::of(&[], 4), None);
    }

    #[test]
    fn names_of_runs_are_escaped() {
        let curve = Curve { run: 0, name: "<script>\"".to_owned(), points: vec![(0.0, 1.0)] };
        let drawn = curves("reward", "", "step", &[curve], 0.0).into_string();
        assert!(!drawn.contains("<script>"), "{drawn}");
        assert!(drawn.contains("&lt;script&gt;&quot;"));
    }
}
