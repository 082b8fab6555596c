"""Which page of a list the address asks for."""

from django.http import QueryDict

# Whoever turns more pages than this is looking for something, and the search finds it faster.
LAST_PAGE = 200


def parse_page(query: QueryDict) -> int:
    """Nonsense is the first page, and far too many is the last one that is shown."""
    text = query.get("page", "")
    if not (text.isascii() and text.isdigit()):
        return 1
    # As many digits as the last page has: more are not read as a number at all, since Python refuses very long ones.
    digits = text.lstrip("0")
    return min(int(digits), LAST_PAGE) if 0 < len(digits) <= len(str(LAST_PAGE)) else LAST_PAGE if digits else 1
