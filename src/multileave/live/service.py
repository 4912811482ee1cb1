"""The service: experiments, the lists it draws, the events it hears, and what they say; no HTTP here."""
