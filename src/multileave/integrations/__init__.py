"""Integrations: what others write and run, read and served; each is a module of its own."""
