"""The settings, WSGI application and tables of the comparison."""

import hashlib
import os
import sys

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from psycopg.conninfo import conninfo_to_dict

conninfo = conninfo_to_dict(os.environ["DATABASE_URL"])
if not settings.configured:
    settings.configure(
        SECRET_KEY="only for measurements, and nothing else",
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF="bench.plain_orm.urls",
        INSTALLED_APPS=["bench.plain_orm"],
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": conninfo["dbname"],
                "USER": conninfo["user"],
                "HOST": conninfo["host"],
                "CONN_MAX_AGE": None,
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    django.setup(set_prefix=False)

application = WSGIHandler()

if __name__ == "__main__":
    call_command("migrate", run_syncdb=True, verbosity=0)
    from bench.plain_orm.models import Token

    Token.objects.create(digest=hashlib.sha256(sys.argv[1].encode()).hexdigest(), name="bench")
