"""The documentation at /help/, as `make docs` has built it."""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponseNotFound
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_safe
from django.views.static import serve

_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


@require_safe
def help_site(request: HttpRequest, path: str) -> HttpResponseBase:
    root: Path = settings.HELP_DIR
    if not (root / "index.html").exists():
        return HttpResponseNotFound("The documentation has not been built: run `make docs`.", content_type="text/plain")
    if not path:
        return redirect("/help/index.html")
    response = serve(request, path, document_root=str(root))
    if path.endswith(".html"):
        # The theme has inline scripts, the same on every page, and sets styles of single elements.
        scripts = " ".join(f"'sha256-{digest}'" for digest in _inline_scripts(root))
        response["Content-Security-Policy"] = (
            f"default-src 'self'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
            "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
        )
    return response


@cache
def _inline_scripts(root: Path) -> list[str]:
    """The digests of all inline scripts of the site."""
    found = {script for page in root.rglob("*.html") for script in _INLINE.findall(page.read_bytes())}
    return sorted(b64encode(sha256(script).digest()).decode() for script in found)
