"""From the socket to Django: the sync lane, and what surrounds every request."""
