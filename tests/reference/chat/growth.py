"""Contexts that grow turn by turn, in which replies are sampled."""
from conversations import CONVERSATIONS


def conversations():
    """Those with a reply behind a first prompt."""
    replied = [one for one in CONVERSATIONS if any(message["role"] == "assistant" for message in one["messages"])]
    return [one for one in replied if one["messages"][0]["role"] != "assistant"]


def prefix(one, count):
    return {**one, "messages": one["messages"][:count]}


def is_changed(reference, one, earlier, later):
    """Whether the template writes the first messages otherwise once there are more: their prompt without its end, which
    belongs to the reply, is no beginning of the later prompt."""
    first, _ = reference.text(prefix(one, earlier))
    second, _ = reference.text(prefix(one, later))
    if first is None or second is None:
        return True
    last = one["messages"][earlier - 1]["content"].strip() if earlier else ""
    end = first.rfind(last) + len(last) if last in first else 0
    return not second.startswith(first[:end])


def compare(row, reference, grown, as_given):
    """A context grows by the tokens that stand behind the reply when the conversation is rendered whole, or begins again
    where an earlier message changed. Those of `as_given` also end as in transformers."""
    cases = conversations()
    for one, answer in zip(cases, grown(cases)):
        if "turns" not in answer:
            row.count("growth: refused", f"{one['name']}: {answer}")
            continue
        turns = answer["turns"]
        for before, now in zip(turns, turns[1:]):
            row.count("growth: turns")
            if now["restarted"]:
                needed = is_changed(reference, one, before["messages"], now["messages"])
                row.count("growth: restarts" if needed else "growth: restarts without a change", one["name"])
                continue
            appended = now["appended"]
            if now["whole"][len(now["whole"]) - len(appended):] != appended:
                row.count("growth: other end than whole", one["name"])
            if now["tokens"] == now["whole"]:
                row.count("growth: equal to whole")
            else:
                row.count("growth: equal behind the reply")
            text, _ = reference.text(prefix(one, now["messages"]))
            if text is not None and one["name"] in as_given:
                tokens = reference.tokens(prefix(one, now["messages"]))
                is_end = tokens[len(tokens) - len(appended):] == appended
                row.count(f"growth: {'equal to' if is_end else 'other than'} the end in transformers",
                          None if is_end else one["name"])
