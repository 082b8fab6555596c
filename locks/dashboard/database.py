"""Runs the SQL files that stand beside the pages."""

from pathlib import Path

from locks.services.sql_files import SqlFiles

fetch = SqlFiles(Path(__file__).parent).fetch
