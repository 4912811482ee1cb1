"""Store: the database, its tables and migrations, and all SQL."""
