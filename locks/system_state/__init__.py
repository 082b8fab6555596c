"""The state of the installation, as the database tells it: counters, background tasks, size, replicas, history."""
