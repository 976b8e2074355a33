"""Health, metrics and the read API over HTTP: translation and nothing more."""
