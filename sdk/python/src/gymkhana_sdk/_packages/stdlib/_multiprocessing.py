"""Substitute for `_multiprocessing`, so that `multiprocessing` can be imported; using it fails with the reason."""

flags = {}


def sem_unlink(name):
    """Raises `OSError`."""
    raise OSError("multiprocessing: a plugin cannot start processes; do the work in Python")


class SemLock:
    """Lock of several processes."""

    SEM_VALUE_MAX = 2147483647

    def __init__(self, *_, **__):
        raise OSError("multiprocessing.SemLock: a plugin cannot start processes; do the work in Python")
