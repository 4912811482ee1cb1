"""Reading: from files to prepared batches of rows."""
