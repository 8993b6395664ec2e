"""A Python interpreter as a tool: a notebook's cells, one namespace an episode."""
