"""Connections to PostgreSQL with a deadline for every call, and Django's database backend that uses them."""
