"""Live: the service a search team runs its experiments on."""
