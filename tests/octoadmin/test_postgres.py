"""The embedded PostgreSQL's own directories."""

import os
from pathlib import Path

import pytest

from octoadmin.postgres import Cluster, PostgresProblem


def test_a_link_in_the_way_of_the_socket_is_refused_and_its_target_left_alone(tmp_path):
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    cluster = Cluster(directory=tmp_path / "data" / "postgres")
    cluster.socket_dir.parent.mkdir(parents=True, exist_ok=True)
    cluster.socket_dir.symlink_to(target)
    before = target.stat()
    with pytest.raises(PostgresProblem, match="belongs to somebody else"), Path(os.devnull).open("wb") as log:
        cluster.start(log=log)
    assert (target.stat().st_uid, target.stat().st_mode) == (before.st_uid, before.st_mode)


def test_a_path_too_long_for_a_socket_has_it_elsewhere(tmp_path):
    deep = tmp_path / ("d" * 100) / "postgres"
    assert len(os.fsencode(Cluster(directory=deep).socket_dir)) <= 85
    assert Cluster(directory=deep).socket_dir == Cluster(directory=deep).socket_dir
