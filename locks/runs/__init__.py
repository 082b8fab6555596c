"""Runs of a team of agents: layers, actors, the leases they share, and a key-value store for each layer."""
