"""Other libraries of the process on ember's memory."""
