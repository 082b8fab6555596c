"""The page number in a query string, and the numbers of the pages around it."""

from django.http import QueryDict

# To go further back than this, a search is faster.
LAST_PAGE = 200


def parse_page(query: QueryDict) -> int:
    """1 if it is missing or no number; numbers beyond the last page count as the last."""
    text = query.get("page", "")
    if not (text.isascii() and text.isdigit()):
        return 1
    # A number with more digits than LAST_PAGE is not converted: Python refuses very long ones.
    digits = text.lstrip("0")
    return min(int(digits), LAST_PAGE) if 0 < len(digits) <= len(str(LAST_PAGE)) else LAST_PAGE if digits else 1


def page_numbers(*, page: int, total: int, rows: int) -> list[int | None]:
    """The first and the last page and those around this one; None stands for a gap. Empty if there is one page only."""
    last = min(-(-total // rows), LAST_PAGE)
    if last < 2:
        return []
    shown = [number for number in range(1, last + 1) if number in (1, last) or abs(number - page) <= 2]
    numbers: list[int | None] = []
    for number, before in zip(shown, [0, *shown], strict=False):
        numbers += [number] if number == before + 1 else [None, number]
    return numbers
