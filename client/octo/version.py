"""The version, apart so that `octo --version` imports nothing else."""

VERSION = "0.2.0"
