//! SVG picture of the board.

use std::fmt::Write;

use crate::board::{Board, Mark, SQUARES};

/// Side of a square, in SVG units.
const SIDE: usize = 40;

/// SVG image: the grid and the marks.
pub fn svg(board: &Board) -> String {
    let whole = 3 * SIDE;
    let mut svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole} {whole}\">\n");
    for square in 0..SQUARES {
        let (x, y) = (square % 3 * SIDE, square / 3 * SIDE);
        shape(&mut svg, format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"#f6f2e8\""));
        let (near, far) = (SIDE / 4, SIDE - SIDE / 4);
        match board.at(square) {
            Some(Mark::X) => {
                let (left, right, top, bottom) = (x + near, x + far, y + near, y + far);
                let path = format!("M{left} {top}L{right} {bottom}M{right} {top}L{left} {bottom}");
                shape(&mut svg, format_args!("<path d=\"{path}\" fill=\"none\""));
            }
            Some(Mark::O) => {
                let (x, y) = (x + SIDE / 2, y + SIDE / 2);
                shape(&mut svg, format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{near}\" fill=\"none\""));
            }
            None => {}
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn shape(svg: &mut String, shape: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{shape} stroke=\"#303030\" stroke-width=\"2\"/>");
}
