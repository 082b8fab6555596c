"""What the admin console needs beyond Django's own: lists that find their rows by an index, and force-release."""
