"""Draws success over RL steps and prints a table of runs, from the output directories of `host run`.

    python3 studies/plot.py OUT.svg "label=DIR" ["label=DIR" ...]

Uses the standard library only. A curve is the mean success of the sampled training episodes of each step, smoothed over
five steps. The table shows success on held-out tasks, from `summary.json`.
"""

import json
import pathlib
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 380, 56, 20, 190, 44
COLOURS = ["#1b6ca8", "#2a9d8f", "#6a4c93", "#d1495b", "#8d6a3f", "#555555"]
SMOOTH = 5


def curve(folder):
    """Training success of each step of the last stage, smoothed."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = max(line["stage"] for line in lines)
    raw = [line["values"]["success"] for line in lines if line["stage"] == last and "success" in line["values"]]
    return [sum(raw[max(0, i - SMOOTH + 1) : i + 1]) / len(raw[max(0, i - SMOOTH + 1) : i + 1]) for i in range(len(raw))]


def draw(runs):
    """Returns the plot as SVG text."""
    steps = max(len(points) for _, points in runs)
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, steps - 1)
    y = lambda success: TOP + (HEIGHT - TOP - BOTTOM) * (1 - success)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tenth in range(0, 11, 2):
        at = y(tenth / 10)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    for step in range(0, steps, max(1, steps // 8)):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">RL step</text>')
    parts.append(f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})" text-anchor="middle">success, sampled</text>')
    for index, (label, points) in enumerate(runs):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x(step):.1f},{y(success):.1f}" for step, success in enumerate(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = TOP + 16 + 18 * index
        parts.append(f'<line x1="{WIDTH - RIGHT + 14}" y1="{at - 4}" x2="{WIDTH - RIGHT + 34}" y2="{at - 4}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 40}" y="{at}">{label}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def row(label, folder):
    """Returns one line of the table."""
    summary = json.loads((folder / "summary.json").read_text())
    last = summary["stages"][-1]
    sampled = lambda key: f"{last[key]:.3f}" if key in last else "–"
    return (
        f"| {label} | {last['success_before']:.3f} | **{last['success_after']:.3f}** | {sampled('success_before_sampled')} "
        f"| {sampled('success_after_sampled')} | {last['episodes']} | {summary['seconds']:.0f} |"
    )


def main():
    out, *runs = sys.argv[1:]
    runs = [(label, pathlib.Path(folder)) for label, folder in (run.split("=", 1) for run in runs)]
    pathlib.Path(out).write_text(draw([(label, curve(folder)) for label, folder in runs]))
    print("| run | greedy before RL | greedy after | sampled before | sampled after | RL episodes | total seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for label, folder in runs:
        print(row(label, folder))


main()
