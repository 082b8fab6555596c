"""The one line of this process."""

from locks.waiting.line import Line

line = Line()
