"""Leases as one would write them first with Django: models, a transaction, select_for_update. For comparison only."""
