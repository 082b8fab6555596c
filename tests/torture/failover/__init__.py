"""The failover drill: three nodes under Patroni, haproxy in front, two servers under load, fault after fault.

`make failover` runs it; docs/high-availability.md describes the set-up and what it has shown.
"""
