"""Being told as it happens: one source per process follows the history for all watchers and all pages."""
