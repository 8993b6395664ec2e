"""Replies in text and in OpenAI's form, and what a seat sees of a turn."""

from types import SimpleNamespace

import pytest

from gymkhana_rl import Call
from gymkhana_rl._adapter import EpisodeConfig, Malformed, Reply, opening, tools_prompt, without_answers
from gymkhana_rl.errors import OptionError
from reference import CASES, path

FUNCTIONS = [{"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}]
FORM = 'the call is not of the form {"name": …, "arguments": {…}}'
ADD = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "message", "calls"),
    [
        ("no call ", "no call", ()),
        (ADD, "", (Call("add", {"a": 1}),)),
        (f"First {ADD} and {ADD}.", "First  and .", (Call("add", {"a": 1}), Call("add", {"a": 1}))),
        ('<tool_call>{"name": "add"}</tool_call>', "", (Call("add", {}),)),
        (
            '<tool_call>{"name": "add", "arguments": {"a": "</tool_call><tool_call>"}}</tool_call>',
            "",
            (Call("add", {"a": "</tool_call><tool_call>"}),),
        ),
        (
            'x <tool_call>{"name": "add"',
            "x",
            (Malformed(f"the call is not closed by </tool_call>; {FORM}: EOF while parsing an object at line 1 column 14"),),
        ),
        (
            "<tool_call>[1]</tool_call>",
            "",
            (Malformed(f"{FORM}: invalid type: integer `1`, expected a JSON object at line 1 column 1"),),
        ),
        (
            '<tool_call>{"name": "add", "arguments": 3}</tool_call>',
            "",
            (Malformed("the arguments of the call are not a JSON object"),),
        ),
        ("<think>\nAdd.\n</think>\n\n" + ADD, "", (Call("add", {"a": 1}),)),
    ],
)
def test_calls_in_text(text: str, message: str, calls: tuple) -> None:
    thoughts = "Add." if "<think>" in text else None
    assert Reply.from_text(text, FUNCTIONS) == Reply(message, calls, thoughts)


def test_a_seat_without_functions_sends_text() -> None:
    assert Reply.from_text(ADD, []).action == ADD


def test_openai_messages_of_mappings_and_of_objects_are_equal() -> None:
    wire = {"id": "7", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    body = SimpleNamespace(name="add", arguments='{"a": 1}')
    for call in (wire, SimpleNamespace(id="7", function=body), SimpleNamespace(id="7", name="add", arguments={"a": 1})):
        reply = Reply.from_message({"role": "assistant", "content": None, "tool_calls": [call]})
        assert reply == Reply("", (Call("add", {"a": 1}, "7"),))
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert Reply.from_message({"role": "assistant", "content": parts}).action == "ab"


def test_a_message_beside_calls_is_part_of_the_action() -> None:
    written = [{"name": "add", "arguments": {"a": 1}}]
    assert Reply.from_text(f"So: {ADD}", FUNCTIONS).action == {"message": "So:", "calls": written}


def test_malformed_calls_are_answered_in_their_places() -> None:
    case = CASES["calls"]
    episode = EpisodeConfig(case.plugin, case.tools).episode()
    episode.start_row(case.row)
    good = Call("calculate", {"expression": "6*7"}, "b")
    turn = episode.act(Reply("", (Malformed("not JSON", "a", "calculate"), good, Malformed("no name", "c"))))
    assert [(answer["id"], answer["content"], answer["failed"]) for answer in turn.answers] == [
        ("a", "not JSON", True),
        ("b", "42", False),
        ("c", "no name", True),
    ]
    assert turn.observation == ""
    turns = episode.env.record()["turns"]
    assert [turn["turn"] for turn in turns[-6:]] == ["malformed-call", "call", "malformed-call", *["answer"] * 3]


@pytest.mark.parametrize(
    ("text", "answers", "rest"),
    [
        ("42", ["42"], ""),
        ("42\nYour turn.", ["42"], "Your turn."),
        ("Moved.\nYou see a door.\n42", ["Moved.", "42"], "You see a door."),
        ("Your turn.", [""], "Your turn."),
        ("Your turn.\n", [], "Your turn.\n"),
    ],
)
def test_observations_without_answers(text: str, answers: list[str], rest: str) -> None:
    assert without_answers(text, [{"content": answer} for answer in answers]) == rest


def test_the_opening_replaces_an_empty_or_equal_message() -> None:
    user = {"role": "user", "content": "Go."}
    for prompt in ([], [{"role": "user", "content": ""}], [user]):
        assert opening(prompt, "Go.") == [user]
    assert opening([{"role": "user", "content": "Play."}], "Go.")[0]["content"] == "Play."
    system = opening([{"role": "system", "content": "Be brief."}], "Go.", tools_prompt(FUNCTIONS))[0]
    assert system["content"].startswith("Be brief.\n\nYou may call functions.")
    assert tools_prompt([]) == ""


def test_seats_are_chosen_by_name_and_by_number() -> None:
    plugin = path("kuhn-poker")
    assert EpisodeConfig(plugin, seat="second").episode().seat == EpisodeConfig(plugin, seat=1).episode().seat == 1
    for seat in ("third", 2, -1):
        with pytest.raises(OptionError, match="unknown seat") as raised:
            EpisodeConfig(plugin, seat=seat).episode()
        assert raised.value.hint == "the seats are first, second"


def test_the_oracle_plays_until_the_seat_is_to_move() -> None:
    episode = EpisodeConfig(path("kuhn-poker"), seat="second").episode()
    observation = episode.start(task=0, seed=3)
    assert observation
    assert episode.done or episode.env.seat == 1
