"""Webhooks: events of the history become deliveries, and deliveries signed requests, repeated until one succeeds."""
