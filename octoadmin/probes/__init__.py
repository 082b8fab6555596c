"""What load balancers and monitoring ask: /health, /status, /metrics."""
