"""Octoadmin's tools for agents, over the Model Context Protocol. `tools` defines them; `server` serves them on standard
input and output, and Octoadmin itself serves the same ones at /mcp."""
