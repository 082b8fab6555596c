"""Octoadmin's tools for agents, over the Model Context Protocol. `tools` defines them; `stdio` serves them to the agent
that started the process, and the server itself serves the same tools at /mcp."""
