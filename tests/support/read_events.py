"""Reads a folder of event files as TensorBoard does, and prints as JSON what TensorBoard would show: {tag: [[step, value], ...]}.

    PYTHONPATH=... read_events.py FOLDER       tests/e2e/test_runtime_exports.py names the packages
"""

import json
import sys

from tensorboard.backend.event_processing import event_accumulator


def main():
    events = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={event_accumulator.TENSORS: 0, event_accumulator.SCALARS: 0})
    events.Reload()
    assert events.file_version == 2, events.file_version
    print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))


if __name__ == "__main__":
    main()
