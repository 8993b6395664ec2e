"""The conversations that every template renders, as OpenAI's API takes them: name, messages, tools and switches.

Ids of calls have nine letters and digits, which all templates accept; texts hold no mark of any template.
"""

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a \"city\" & more – é",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "a city"},
            "unit": {"type": "string", "description": "a unit", "enum": ["C", "F"]},
            "days": {"type": "integer", "description": "days\nfrom now", "default": 3},
            "options": {"type": "object", "description": "others", "properties": {
                "x": {"type": ["string", "null"]}, "list": {"type": "array", "items": {"type": "number"}}},
                "additionalProperties": {"type": "string"}},
        }, "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "stop", "description": "Stops.", "parameters": {"type": "object", "properties": {}}}},
]
ODD = "  lead \"q\" 'x' \\ \n\n{{ y }} {% z %} é🙂 日本語\tT\u00a0\u200b\r\n end\t "
LONG = "\n".join(f"line {number}: {'word ' * (number % 7)}" for number in range(40))


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "system", "content": text}


def reply(text, thoughts=None, calls=()):
    message = {"role": "assistant", "content": text}
    if thoughts is not None:
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = list(calls)
    return message


def call(arguments, number=1, name="get_weather"):
    return {"id": f"callnum{number:02}", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, number=1, name="get_weather"):
    return {"role": "tool", "content": text, "tool_call_id": f"callnum{number:02}", "name": name}


def one(name, *messages, tools=None, **switches):
    return {"name": name, "messages": list(messages), "tools": tools, "switches": switches}


def flat():
    """One message of the user, with and without instructions."""
    yield one("flat", user("Hi there"))
    yield one("flat with instructions", system("Be brief."), user("Hi there"))
    for name, text in {"odd": ODD, "long": LONG, "blank": " \n ", "empty": "", "quotes": "'\"`\\\"' \"a\"",
                       "newlines": "\n\na\n\n\nb\n", "unicode": "Ünïcödé ß 中文 العربية 👩‍👩‍👧"}.items():
        yield one(f"flat, {name}", user(text))
        yield one(f"flat with instructions, {name}", system(text), user(text))


def turns():
    """Several turns without calls."""
    yield one("two turns", user("Hi"), reply("Yo"), user("more"))
    yield one("two turns with instructions", system("Be brief."), user("Hi"), reply("Yo"), user("more"))
    yield one("four turns", system("S"), *[part for number in range(3) for part in (
        user(f"question {number}?"), reply(f"Answer {number}."))], user("last"))
    for name, text in {"odd": ODD, "newlines": "\n\na\n\n\nb\n", "long": LONG}.items():
        yield one(f"two turns, {name}", user(text), reply(text), user(text))
        yield one(f"two turns with instructions, {name}", system(text), user(text), reply(text), user(text))


def calls():
    """Tools, calls and results."""
    weather = {"city": "Köln"}
    rich = {"city": "a \"b\" < c & d > 'e'\n", "days": 2, "options": {"x": None, "list": [1.5, -2, True, "z"]}}
    yield one("tools", user("Weather?"), tools=TOOLS)
    yield one("tools with instructions", system("Be brief."), user("Weather?"), tools=TOOLS)
    yield one("tools, odd", system(ODD), user(ODD), tools=TOOLS)
    for name, arguments, text in [("call", weather, ""), ("call with text", weather, "Let me see."),
                                  ("rich call", rich, ""), ("call without arguments", {}, "")]:
        called = "stop" if arguments == {} else "get_weather"
        first = (user("Weather?"), reply(text, calls=[call(arguments, name=called)]), result("12 °C", name=called))
        yield one(name, *first, tools=TOOLS)
        yield one(f"{name}, then a turn", system("Be brief."), *first, reply("It is 12."), user("Thanks"), tools=TOOLS)
    yield one("two calls", user("Weather?"), reply("", calls=[call(weather), call({"city": "Bonn"}, 2)]),
              result("1"), result("2", 2), tools=TOOLS)
    yield one("calls after calls", user("Weather?"), reply("", calls=[call(weather)]), result("1"),
              reply("", calls=[call({"city": "Bonn"}, 2)]), result("2", 2), tools=TOOLS)
    yield one("result in JSON", user("Weather?"), reply("", calls=[call(weather)]), result('{"t": 1, "u": null}'),
              tools=TOOLS)
    yield one("odd result", user("Weather?"), reply("", calls=[call(weather)]), result(ODD), tools=TOOLS)
    yield one("empty result", user("Weather?"), reply("", calls=[call(weather)]), result(""), tools=TOOLS)


def thoughts():
    """Replies with thoughts, and the usual switches."""
    yield one("thoughts", user("q"), reply("ans", "because"), user("r"))
    yield one("thoughts in each reply", system("S"), user("q"), reply("ans", "because\nof\n"), user("r"),
              reply("two", "\n so"), user("s"))
    yield one("odd thoughts", user("q"), reply(ODD, ODD), user("r"))
    yield one("empty thoughts", user("q"), reply("ans", ""), user("r"))
    yield one("thoughts and a call", user("q"), reply("", "because", [call({"city": "x"})]), result("res"), tools=TOOLS)
    yield one("thoughts, a call and text", user("q"), reply("ans", "because", [call({"city": "x"})]), result("res"),
              reply("fin", "z"), user("r"), tools=TOOLS)
    for switch in ({"enable_thinking": True}, {"enable_thinking": False}, {"reasoning_effort": "high"}):
        (key, value), = switch.items()
        yield one(f"{key} = {value}", user("q"), reply("ans", "because"), user("r"), **switch)


def unusual():
    """Orders of roles that some templates refuse."""
    yield one("two messages of the user", user("a"), user("b"))
    yield one("a reply first", reply("first"), user("x"))
    yield one("two instructions", system("a"), system("b"), user("c"))


def variants():
    """Forms of calls beside those of CONVERSATIONS, counted by themselves: kind and conversation."""
    weather = {"city": "Köln"}
    for kind, content, number, arguments in [
        ("content null", None, 1, weather),
        ("arguments as text", "", 1, '{"city": "Köln"}'),
        ("other ids", "", None, weather),
    ]:
        called, answered = call(arguments), result("12 °C")
        if number is None:
            called["id"] = answered["tool_call_id"] = "call_" + "a1B-" * 5
        messages = [user("Weather?"), reply(content, calls=[called]), answered]
        yield kind, one(kind, *messages, tools=TOOLS)
        yield kind, one(kind, system("S"), *messages, reply("It is 12."), user("Thanks"), tools=TOOLS)


def listing_tools(conversations):
    """The same conversations with tools that nobody calls: some templates refuse all without tools."""
    for given in conversations:
        yield {**given, "name": f"{given['name']}, with tools", "tools": TOOLS}


CONVERSATIONS = [*flat(), *turns(), *listing_tools(flat()), *listing_tools(turns()), *calls(), *thoughts(), *unusual()]


def with_marks(marks):
    """Conversations whose texts hold marks of the template, at several places."""
    text = " ".join(marks)
    yield one("marks", system(text), user(f"a{text}b"), reply(f"c {text}"), user(text))
    yield one("marks in results", user("q"), reply(text, calls=[call({"city": text})]), result(text), tools=TOOLS)
    yield one("marks alone", user(marks[0]), reply(marks[-1]), user("".join(marks)))
