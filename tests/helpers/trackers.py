"""What trackers have kept, read back as their own tools read it."""

import csv
import io
import json
import struct
import time
from pathlib import Path
from typing import Any


def csv_rows(path: Path) -> list[dict[str, str]]:
    """A CSV file's rows."""
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def tensorboard_scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Tag -> step -> value, as TensorBoard shows them; a step that is there twice is an error."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    found = {}
    for tag in events.Tags()["scalars"]:
        steps = [event.step for event in events.Scalars(tag)]
        assert len(set(steps)) == len(steps), (tag, steps)
        found[tag] = {event.step: event.value for event in events.Scalars(tag)}
    return found


def wandb_records(folder: Path) -> list[Any]:
    """The records of all offline runs in a folder, in the order in which these began, once the last one is written."""
    records = _records(folder)
    while not records or records[-1].WhichOneof("record_type") != "exit":  # W&B writes it after its `finish`
        time.sleep(0.05)
        records = _records(folder)
    return records


def _records(folder: Path) -> list[Any]:
    from wandb.proto import wandb_internal_pb2

    records = []
    for path in sorted(folder.glob("offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime_ns):
        for data in _leveldb_log(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            records.append(record)
    return records


def wandb_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of its history."""
    rows = []
    for record in wandb_records(folder):
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({x.key or ".".join(x.nested_key): json.loads(x.value_json) for x in items})
    return rows


def _leveldb_log(data: bytes) -> list[bytes]:
    """The records of a log of LevelDB's: blocks of 32 KiB, each part with a checksum, its length and its kind."""
    block, position, records, open_ = 32_768, 7, [], b""
    while position + 7 <= len(data):
        if block - position % block < 7:
            position += block - position % block
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        if kind == 0:
            break
        open_ += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            records.append(open_)
            open_ = b""
    return records
