"""The broker of files: a message is read whole, once and in order, or not at all."""

import threading
from pathlib import Path

import pytest
from kombu import Connection

MANY = 300


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    folder = tmp_path / "queue"
    folder.mkdir()
    return folder


def connection(queue: Path) -> Connection:
    return Connection(
        "filesystem://localhost",
        transport="octoadmin.run.broker:Transport",
        transport_options={
            "data_folder_in": str(queue),
            "data_folder_out": str(queue),
            "control_folder": str(queue / "control"),
            "polling_interval": 0.001,
        },
    )


def test_a_reader_beside_a_writer_gets_every_message_whole_and_in_order(queue: Path) -> None:
    def write() -> None:
        with connection(queue) as writer, writer.SimpleQueue("tasks") as tasks:
            for number in range(MANY):
                tasks.put({"number": number})

    writing = threading.Thread(target=write)
    with connection(queue) as reader, reader.SimpleQueue("tasks") as tasks:
        writing.start()
        got = []
        for _ in range(MANY):
            message = tasks.get(timeout=10)
            message.ack()
            got.append(message.payload["number"])
        writing.join()
    assert got == list(range(MANY))
    assert [file.name for file in queue.iterdir() if file.is_file()] == []


def test_a_damaged_message_is_skipped(queue: Path) -> None:
    """On a queue of another name: Kombu remembers for the whole process which ones it has declared."""
    (queue / "0_damaged.others.msg").write_text('{"body": ')
    with connection(queue) as broker, broker.SimpleQueue("others") as tasks:
        tasks.put({"number": 1})
        message = tasks.get(timeout=10)
        message.ack()
        assert message.payload == {"number": 1}
