"""The audit history and what follows it: pages and exports, streams, webhooks."""
