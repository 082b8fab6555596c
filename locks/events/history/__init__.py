"""The audit history as its readers use it: filtered pages, exports, streams, statistics, and proof that it is whole."""
