"""Draws a study's metric over training steps, from the JSON lines that `cargo xtask study` writes.

    python3 studies/plot_study.py OUT.svg LINES.jsonl

Uses the standard library only. Thin curves are single seeds, thick curves are means over seeds, and dashed lines mark
the values named in the claim. The table on standard output shows, for each arm and metric, the mean over the last tenth
of the steps by seed, and the minimum and maximum over all steps.
"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 380, 64, 20, 170, 44
COLOURS = ["#1b6ca8", "#d1495b", "#2a9d8f", "#6a4c93", "#8d6a3f", "#c77dba", "#555555"]


def curves(head, rows):
    """Returns (step, value) pairs of the plotted metric, by arm and seed."""
    found = {arm: {} for arm in head["arms"]}
    for row in rows:
        if head["figure"] in row:
            found[row["arm"]].setdefault(row["seed"], []).append((row["step"], row[head["figure"]]))
    return found


def averaged(seeds):
    """Returns the mean over seeds at each step."""
    return [(points[0][0], sum(value for _, value in points) / len(points)) for points in zip(*seeds.values())]


def draw(head, arms):
    """Returns the plot as SVG text."""
    points = [point for seeds in arms.values() for seed in seeds.values() for point in seed]
    most = max(step for step, _ in points)
    low = min([value for _, value in points] + head["marks"] + [0.0])
    high = max([value for _, value in points] + head["marks"])
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, most)
    y = lambda value: TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low or 1))
    line = lambda seed: " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in seed)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for fifth in range(6):
        value = low + (high - low) * fifth / 5
        parts.append(f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{WIDTH - RIGHT}" y2="{y(value):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for mark in head["marks"]:
        parts.append(f'<line x1="{LEFT}" y1="{y(mark):.1f}" x2="{WIDTH - RIGHT}" y2="{y(mark):.1f}" stroke="#555" stroke-dasharray="5 4"/>')
    for step in range(0, most + 1, max(1, math.ceil(most / 8))):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">training step</text>')
    parts.append(f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})" text-anchor="middle">{head["figure"].replace("_", " ")}</text>')
    for index, (arm, seeds) in enumerate(arms.items()):
        colour, at = COLOURS[index % len(COLOURS)], TOP + 16 + 18 * index
        for seed in seeds.values():
            parts.append(f'<polyline points="{line(seed)}" fill="none" stroke="{colour}" stroke-width="0.7" opacity="0.45"/>')
        parts.append(f'<polyline points="{line(averaged(seeds))}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        parts.append(f'<line x1="{WIDTH - RIGHT + 14}" y1="{at - 4}" x2="{WIDTH - RIGHT + 34}" y2="{at - 4}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 40}" y="{at}">{arm}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def table(arms, rows, figures):
    """Prints, for each arm and metric, the mean of the last tenth by seed, the minimum and the maximum."""
    print("| arm | metric | last tenth, by seed | minimum | maximum |")
    print("| --- | --- | --- | --- | --- |")
    for arm in arms:
        for figure in figures:
            lasts, every = [], []
            for seed in sorted({row["seed"] for row in rows if row["arm"] == arm}):
                values = [row[figure] for row in rows if (row["arm"], row["seed"]) == (arm, seed) and figure in row]
                tail = values[-max(1, len(values) // 10) :]
                lasts.append(sum(tail) / len(tail))
                every += values
            shown = ", ".join(f"{last:.3f}" for last in lasts)
            print(f"| {arm} | {figure} | {shown} | {min(every):.3f} | {max(every):.3f} |")


def main():
    out, source = map(pathlib.Path, sys.argv[1:])
    head, *rows = [json.loads(line) for line in source.read_text().splitlines()]
    out.write_text(draw(head, curves(head, rows)))
    figures = dict.fromkeys(key for row in rows for key in row if key not in ("arm", "seed", "step"))
    table(head["arms"], rows, figures)


main()
