"""Alerts: rules of a space say which trouble is sent where, an evaluation finds it, and the outbox sends it."""
