"""Requests that wait for a lock: on the event loop, none of them with a thread or a database connection."""
