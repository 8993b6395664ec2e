"""Python interpreter as a tool: notebook cells that share one namespace per episode."""
