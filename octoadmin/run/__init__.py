"""`octoadmin up` and the processes that it runs: PostgreSQL, the web server, the Celery worker."""
