"""A queue that serves its groups in turn, so that none waits behind the many items of another."""

from collections import deque
from collections.abc import Container, Hashable, Iterator
from itertools import chain
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Within a group, the first in is the first out. Not for several threads at once."""

    def __init__(self) -> None:
        # The group whose turn it is comes first. No group is empty.
        self._groups: dict[Hashable, deque[Item]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._groups.values())

    def first_items(self) -> Iterator[Item]:
        """Of each group, the one that has waited longest."""
        return (items[0] for items in self._groups.values())

    def is_full(self, group: Hashable, *, max_length: int) -> bool:
        """For a further item of this group. Beyond the length, a group can still add items up to an equal share of
        it, so that no group can keep the others out; up to twice the length, however many groups there are."""
        if self._length < max_length:
            return False
        if self._length >= 2 * max_length:
            return True
        items = self._groups.get(group, ())
        return len(items) * len(self._groups) >= max_length

    def append(self, group: Hashable, item: Item) -> None:
        self._groups.setdefault(group, deque()).append(item)
        self._length += 1

    def appendleft(self, group: Hashable, item: Item) -> None:
        """In front of its group."""
        self._groups.setdefault(group, deque()).appendleft(item)
        self._length += 1

    def pop(self, *, without: Container[Hashable] = ()) -> tuple[Hashable, Item] | None:
        """The next item, with its group; None if all items are of groups that are left out."""
        for group in self._groups:
            if group not in without:
                break
        else:
            return None
        items = self._groups.pop(group)
        item = items.popleft()
        self._length -= 1
        if items:
            self._groups[group] = items
        return group, item

    def clear(self) -> None:
        self._groups.clear()
        self._length = 0
