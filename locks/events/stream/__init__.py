"""Live streams: one poller per process reads the history in commit order for all watchers and all open pages."""
