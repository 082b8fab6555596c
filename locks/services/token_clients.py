"""Remembers from where, and by which programs, tokens are used."""

from datetime import timedelta
from pathlib import Path

from django.db import connection
from django.db.models.functions import Now

from locks.models.token_client import MAX_USER_AGENT, TokenClient

# Of a token that is used from more addresses, the latest are remembered.
MAX_CLIENTS = 200

_RECORD = (Path(__file__).parent / "sql" / "record_token_client.sql").read_text()


def record(*, digest: bytes, address: str, user_agent: str) -> None:
    parameters: dict[str, bytes | str | int] = {
        "digest": digest, "address": address, "user_agent": user_agent.replace("\0", "")[:MAX_USER_AGENT],
        "others": MAX_CLIENTS - 1,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_RECORD, parameters)


def purge(*, days: int) -> None:
    TokenClient.objects.filter(last_used_at__lt=Now() - timedelta(days=days)).delete()
