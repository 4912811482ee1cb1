"""Access: who may do what, how often, and the secrets that prove it."""
