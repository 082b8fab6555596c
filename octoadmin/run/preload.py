"""Reads and compiles the pages' templates before the first request, which would otherwise wait for it."""

from django.conf import settings
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.template.loader import get_template
from django.urls import reverse


def preload() -> None:
    """Takes about a quarter of a second, and needs no database: the server starts without one."""
    reverse("dashboard:home")
    if settings.DEBUG:
        # Templates are read at each request there.
        return
    directory = settings.ASSETS_DIR / "templates"
    for template in sorted(directory.rglob("*.html")):
        try:
            get_template(str(template.relative_to(directory)))
        except (TemplateDoesNotExist, TemplateSyntaxError):
            # The page itself reports it.
            continue
