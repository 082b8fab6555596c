"""`make torture`: recorded histories of real clients under faults, and a checker that decides whether they are
possible.

`history` is what is recorded, `checker` decides, `installation` is what is tortured, `clients` use it, `faults` break
it, `run` puts them together, `report` says what was found.
"""
