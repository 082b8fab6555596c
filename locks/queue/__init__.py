"""Requests that wait for their turn: on the event loop, none of them with a thread or a database connection."""
