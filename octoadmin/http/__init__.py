"""What surrounds every request: middleware, proxies, error pages, and responses that end on the event loop."""
