"""Makes tests/golden/events.bin with TensorBoard's own writer: `pip install tensorboard`, then run this."""

import pathlib

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def scalars(wall_time, step, **values):
    pairs = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
    return Event(wall_time=wall_time, step=step, summary=Summary(value=pairs))


events = [
    Event(wall_time=1_700_000_000.25, file_version="brain.Event:2"),
    Event(wall_time=1_700_000_000.25, step=3, session_log=SessionLog(status=SessionLog.START)),
    scalars(1_700_000_001.5, 3, reward=0.5, loss=-1.25e-3),
    scalars(1_700_000_002.0, 300, reward=0.0),
    scalars(1_700_000_003.0, 0, **{"success/held-out": 1.0}),
]
golden = pathlib.Path(__file__).parent / "golden" / "events.bin"
with golden.open("wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString(deterministic=True))
