#!/usr/bin/env python3
"""Writes the results of queries in Python's SQLite, and which pairs of queries have equal results.

make_sql_goldens.py FOLDER writes FOLDER/sql.json. Rows come from the module sqlite3 alone; whether two results match is
decided by sorting and counting, where the Rust code pairs rows one by one. Needs only Python."""
import json
import math
import pathlib
import sqlite3
import sys

SCRIPT = """
CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, city TEXT NOT NULL, founded INTEGER);
CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team (id), name TEXT, goals INTEGER, pay REAL);
INSERT INTO team VALUES (1, 'Foxes', 'Olm', 1901), (2, 'Larks', 'Arden', 1955), (3, 'Swans', 'Olm', NULL);
INSERT INTO player VALUES
  (1, 1, 'Ada', 12, 10.5), (2, 1, 'Bo', 3, 7.25), (3, 2, 'Carl', 12, 10.5), (4, 2, 'Dana', NULL, 0.1),
  (5, 2, 'Elif', 7, 0.2), (6, NULL, 'Finn', 0, 99.99), (7, 1, 'Gita', 3, NULL);
"""

# Two queries, and whether the question requires an order.
PAIRS = [
    ("SELECT name FROM player WHERE goals > 5", "SELECT name FROM player WHERE NOT goals <= 5", False),
    ("SELECT name FROM player WHERE goals > 3", "SELECT name FROM player WHERE goals >= 3", False),
    ("SELECT goals FROM player", "SELECT DISTINCT goals FROM player", False),
    ("SELECT goals FROM player WHERE goals = 3", "SELECT 3 UNION ALL SELECT 3", False),
    ("SELECT name FROM player ORDER BY name", "SELECT name FROM player ORDER BY name DESC", False),
    ("SELECT name FROM player ORDER BY name", "SELECT name FROM player ORDER BY name DESC", True),
    ("SELECT name FROM player ORDER BY pay DESC, name", "SELECT name FROM player ORDER BY -pay, name", True),
    ("SELECT sum(pay) FROM player", "SELECT total(pay) AS everything FROM player", False),
    ("SELECT sum(pay) FROM player WHERE id IN (4, 5)", "SELECT 0.3", False),
    ("SELECT sum(pay) FROM player WHERE id IN (4, 5)", "SELECT 0.30001", False),
    ("SELECT avg(goals) FROM player", "SELECT sum(goals) * 1.0 / count(goals) FROM player", False),
    ("SELECT avg(goals) FROM player", "SELECT sum(goals) * 1.0 / count(*) FROM player", False),
    ("SELECT avg(goals) FROM player", "SELECT sum(goals) / count(goals) FROM player", False),
    ("SELECT count(*) FROM player", "SELECT 7.0", False),
    ("SELECT count(*) FROM player", "SELECT '7'", False),
    ("SELECT count(*) FROM player", "SELECT count(goals) FROM player", False),
    ("SELECT goals FROM player WHERE id = 4", "SELECT NULL", False),
    ("SELECT goals FROM player WHERE id = 4", "SELECT 0", False),
    ("SELECT goals FROM player WHERE id = 4", "SELECT ''", False),
    ("SELECT name, goals FROM player", "SELECT goals, name FROM player", False),
    ("SELECT name FROM player", "SELECT name, name FROM player", False),
    ("SELECT t.name, count(*) FROM player p JOIN team t ON t.id = p.team_id GROUP BY t.id HAVING count(*) > 2",
     "SELECT name, (SELECT count(*) FROM player WHERE team_id = team.id) AS n FROM team WHERE n > 2", False),
    ("SELECT t.name, count(p.id) FROM team t LEFT JOIN player p ON t.id = p.team_id GROUP BY t.id",
     "SELECT t.name, count(*) FROM team t JOIN player p ON t.id = p.team_id GROUP BY t.id", False),
    ("SELECT name FROM team WHERE id NOT IN (SELECT team_id FROM player)",
     "SELECT name FROM team t WHERE NOT EXISTS (SELECT 1 FROM player WHERE team_id = t.id)", False),
    ("SELECT city FROM team EXCEPT SELECT city FROM team WHERE founded > 1950",
     "SELECT DISTINCT city FROM team WHERE city <> 'Arden'", False),
    ("SELECT name FROM (SELECT name, rank() OVER (ORDER BY goals DESC) AS r FROM player) WHERE r = 1",
     "SELECT name FROM player WHERE goals = (SELECT max(goals) FROM player)", False),
    ("SELECT name FROM (SELECT name, row_number() OVER (ORDER BY goals DESC, id) AS r FROM player) WHERE r = 1",
     "SELECT name FROM player WHERE goals = (SELECT max(goals) FROM player)", False),
    ("SELECT id, sum(goals) OVER (ORDER BY id) FROM player ORDER BY id",
     "SELECT id, (SELECT sum(goals) FROM player q WHERE q.id <= p.id) FROM player p ORDER BY id", True),
    ("SELECT id, goals - lag(goals) OVER (ORDER BY id) FROM player",
     "SELECT p.id, p.goals - q.goals FROM player p LEFT JOIN player q ON q.id = p.id - 1", False),
    ("SELECT x'00ff'", "SELECT x'00FF'", False),
    ("SELECT x'61'", "SELECT 'a'", False),
    ("SELECT 9007199254740993", "SELECT 9007199254740992", False),
    ("SELECT 1e20", "SELECT 100000000000000000000.0", False),
    ("SELECT 'Ä'", "SELECT 'ä'", False),
    ("SELECT name FROM team WHERE founded IS NULL", "SELECT name FROM team WHERE founded = NULL", False),
    ("SELECT date('2024-02-28', '+2 days'), strftime('%Y', '2024-05-05')", "SELECT '2024-03-01', '2024'", False),
]


def key(value):
    """Sort key over all values; numbers are ordered by value."""
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float)):
        return (1, value)
    if isinstance(value, str):
        return (2, value)
    return (3, value)


def same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
        return numbers and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    return type(one) is type(other) and one == other


def match(one, other, ordered):
    if not ordered:
        one, other = (sorted(rows, key=lambda row: [key(value) for value in row]) for rows in (one, other))
    return len(one) == len(other) and all(
        len(left) == len(right) and all(map(same, left, right)) for left, right in zip(one, other)
    )


def written(value):
    return {"blob": value.hex()} if isinstance(value, bytes) else value


def main():
    database = sqlite3.connect(":memory:")
    database.executescript(SCRIPT)
    pairs = []
    for gold, answer, ordered in PAIRS:
        results = [database.execute(sql).fetchall() for sql in (gold, answer)]
        pairs.append({
            "gold": gold, "answer": answer, "ordered": ordered, "match": match(*results, ordered),
            "rows": [[[written(value) for value in row] for row in rows] for rows in results],
        })
    golden = {"sqlite": sqlite3.sqlite_version, "script": SCRIPT, "pairs": pairs}
    text = json.dumps(golden, indent=1, ensure_ascii=False)
    (pathlib.Path(sys.argv[1]) / "sql.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
