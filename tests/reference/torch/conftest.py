"""Engines that tests share: a process takes seconds to start."""

import pytest
from client import Engine


def _engine(ranks):
    with Engine(ranks) as engine:
        yield engine
        engine.ask("close")
        assert engine.ended(20) == 0 and not engine.words()


@pytest.fixture(scope="session")
def one():
    """An engine of one rank."""
    yield from _engine(1)


@pytest.fixture(scope="session")
def two():
    """An engine of two ranks."""
    yield from _engine(2)


@pytest.fixture(params=["one", "two"])
def engine(request):
    """Each of the engines."""
    return request.getfixturevalue(request.param)
