"""The page number in a query string."""

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
