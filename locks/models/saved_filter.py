"""Filters of a page that a user has saved under a name."""

from django.conf import settings
from django.db import models

from locks.models.space import Space

MAX_NAME = 60
MAX_QUERY = 2_000


class SavedFilter(models.Model):
    """Personal: others get the filters as the URL of the page."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="+")
    # The name of the page's URL.
    page = models.TextField()
    name = models.CharField(max_length=MAX_NAME)
    # The query string of the page.
    query = models.CharField(max_length=MAX_QUERY)

    class Meta:
        db_table = "octo_saved_filter"
        constraints = (
            models.UniqueConstraint(
                fields=("user", "space", "page", "name"), name="saved_filter_name_is_unique_on_its_page"
            ),
        )

    def __str__(self) -> str:
        return self.name
