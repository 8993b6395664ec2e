"""From the contract's functions and records, as componentize-py makes them, to an author's classes.

Imported in a component alone: `wit_world` exists nowhere else.
"""
