"""Telling other systems: from the history to deliveries, from deliveries to signed requests, until they are taken."""
