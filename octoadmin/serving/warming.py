"""Does before the first request what the first request would wait for: reads and compiles the pages' templates."""

from django.conf import settings
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.template.loader import get_template
from django.urls import reverse


def warm() -> None:
    """Asks no database: the server starts without one, and says so when asked. Takes about a quarter of a second."""
    reverse("dashboard:home")
    if settings.DEBUG:
        # Templates are read anew each time there.
        return
    directory = settings.PROJECT_DIR / "templates"
    for template in sorted(directory.rglob("*.html")):
        try:
            get_template(str(template.relative_to(directory)))
        except (TemplateDoesNotExist, TemplateSyntaxError):
            # Whoever opens that page will be told.
            continue
