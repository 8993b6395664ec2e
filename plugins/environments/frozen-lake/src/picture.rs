//! SVG picture of the lake.

use std::fmt::Write;

use crate::map::Map;

/// Side of a tile, in SVG units.
const TILE: usize = 24;

/// SVG image: ice, holes, the goal and the agent.
pub fn svg(map: &Map, agent: usize) -> String {
    let side = map.size() * TILE;
    let mut svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\">\n");
    for place in 0..map.places() {
        let (x, y) = corner(map, place);
        let colour = match (map.is_hole(place), map.is_goal(place)) {
            (true, _) => "#1f3f66",
            (_, true) => "#e0b040",
            _ => "#dceefa",
        };
        line(
            &mut svg,
            format_args!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{TILE}\" height=\"{TILE}\" fill=\"{colour}\" stroke=\"#ffffff\"/>"
            ),
        );
    }
    let (x, y) = corner(map, agent);
    let (x, y, radius) = (x + TILE / 2, y + TILE / 2, TILE / 3);
    line(&mut svg, format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"#c03030\"/>"));
    svg.push_str("</svg>\n");
    svg
}

fn corner(map: &Map, place: usize) -> (usize, usize) {
    (place % map.size() * TILE, place / map.size() * TILE)
}

fn line(svg: &mut String, shape: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{shape}");
}
