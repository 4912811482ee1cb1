"""HTTP: routes, models, error responses and authentication around one service."""
