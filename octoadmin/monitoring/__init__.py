"""For load balancers and monitoring: /health, /status, /metrics."""
