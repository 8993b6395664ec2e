"""Contexts that grow turn by turn, in which replies are sampled."""
from conversations import CONVERSATIONS


def conversations():
    """Those with a reply that is not the last message."""
    return [one for one in CONVERSATIONS if any(message["role"] == "assistant" for message in one["messages"])]


def prefix(one, count):
    return {**one, "messages": one["messages"][:count]}


def changed(reference, one, earlier, later):
    """Whether the template writes the first messages otherwise once there are more: their prompt without its end, which
    belongs to the reply, is no beginning of the later prompt."""
    first, _ = reference.text(prefix(one, earlier))
    second, _ = reference.text(prefix(one, later))
    if first is None or second is None:
        return True
    last = one["messages"][earlier - 1]["content"].strip() if earlier else ""
    end = first.rfind(last) + len(last) if last in first else 0
    return not second.startswith(first[:end])


def compare(row, reference, grown):
    """A context equals its conversation rendered whole, or begins again where an earlier message changed."""
    cases = conversations()
    for one, answer in zip(cases, grown(cases)):
        if "turns" not in answer:
            row.count("growth: refused")
            continue
        turns = answer["turns"]
        for before, now in zip(turns, turns[1:]):
            row.count("growth: turns")
            if not now["restarted"]:
                row.count("growth: appended")
                if now["tokens"] != now["whole"]:
                    row.count("growth: other tokens than whole", one["name"])
            elif changed(reference, one, before["messages"], now["messages"]):
                row.count("growth: restarts")
            else:
                row.count("growth: restarts without a change", one["name"])
