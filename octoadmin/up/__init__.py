"""`manage.py up`: one command that starts everything, and stops it."""
