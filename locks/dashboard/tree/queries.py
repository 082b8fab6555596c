"""Tree: the held and waited-for names of a namespace as folders, with what is held and waits below each."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from locks.dashboard.database import fetch
from locks.models import Space
from locks.models.space import NamespaceRule

MAX_NAMES = 10_000


@dataclass(frozen=True, kw_only=True)
class NameRow:
    name: str
    owner: str | None
    expires_at: datetime | None
    waiters: int
    now: datetime


@dataclass
class Folder:
    """A path, and the numbers of all names in it. `row` is the lock of the path itself, if it is held or waited for."""

    label: str
    name: str
    depth: int
    row: NameRow | None = None
    held: int = 0
    waiting: int = 0
    is_open: bool = False
    children: dict[str, "Folder"] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tree:
    namespace: str
    root: Folder
    is_complete: bool
    # Of the database; None if there are no names.
    now: datetime | None
    # Those shown: the children of open folders, each after its parent.
    folders: list[Folder]


def tree_namespaces(space: Space) -> list[str]:
    return sorted(namespace for namespace, rule in space.namespaces.items() if rule == NamespaceRule.TREE)


def tree(*, space: Space, namespace: str, opened: Collection[str]) -> Tree:
    parameters = {
        "space_id": space.pk, "low": namespace, "high": f"{namespace.removesuffix(':')};", "limit": MAX_NAMES,
    }  # fmt: skip
    rows = fetch("tree/names", NameRow, parameters)
    root = Folder(label=namespace, name=namespace, depth=0, is_open=True)
    for row in rows:
        _add(root, row)
    for folder in _walk(root, opened):
        folder.is_open = True
    return Tree(
        namespace=namespace, root=root, is_complete=len(rows) < MAX_NAMES, now=rows[0].now if rows else None,
        folders=list(_shown(root)),
    )  # fmt: skip


def _add(root: Folder, row: NameRow) -> None:
    folder = root
    path = row.name.removeprefix(root.name)
    for segment in path.split("/") if path else []:
        _count(folder, row)
        name = f"{folder.name}{segment}" if folder is root else f"{folder.name}/{segment}"
        folder = folder.children.setdefault(segment, Folder(label=segment, name=name, depth=folder.depth + 1))
    _count(folder, row)
    folder.row = row


def _count(folder: Folder, row: NameRow) -> None:
    folder.held += row.owner is not None
    folder.waiting += row.waiters


def _walk(folder: Folder, opened: Collection[str]) -> Iterator[Folder]:
    for child in folder.children.values():
        if child.name in opened:
            yield child
            yield from _walk(child, opened)


def _shown(folder: Folder) -> Iterator[Folder]:
    for child in sorted(folder.children.values(), key=lambda child: (not child.children, child.label)):
        yield child
        if child.is_open:
            yield from _shown(child)
