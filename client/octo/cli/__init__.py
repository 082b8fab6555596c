"""The command line, `octo`."""
