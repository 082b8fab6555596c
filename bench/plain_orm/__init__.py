"""Leases as a first Django version would have them: models, a transaction, select_for_update. For comparison only."""
