"""The operators' pages: views parse and authorise, queries return plain data, changes go through the engine."""
