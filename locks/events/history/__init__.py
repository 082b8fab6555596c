"""The audit history: filtered pages, exports, statistics, retention, and a check that it agrees with the locks."""
