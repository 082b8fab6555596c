"""The embedded PostgreSQL's own directories."""

import os
from pathlib import Path

import pytest

from octoadmin.run.postgres import Cluster, PostgresError


def test_a_link_instead_of_the_socket_directory_is_rejected_and_its_target_unchanged(tmp_path):
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    cluster = Cluster(directory=tmp_path / "data" / "postgres")
    cluster.socket_dir.parent.mkdir(parents=True, exist_ok=True)
    cluster.socket_dir.symlink_to(target)
    before = target.stat()
    with pytest.raises(PostgresError, match="belongs to another account"), Path(os.devnull).open("wb") as log:
        cluster.start(log=log)
    assert (target.stat().st_uid, target.stat().st_mode) == (before.st_uid, before.st_mode)


def test_a_long_data_path_has_its_socket_in_the_temporary_directory(tmp_path):
    deep = tmp_path / ("d" * 100) / "postgres"
    assert len(os.fsencode(Cluster(directory=deep).socket_dir)) <= 85
    assert Cluster(directory=deep).socket_dir == Cluster(directory=deep).socket_dir
