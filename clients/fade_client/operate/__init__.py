"""Commands for people: look at runs, watch them, take their history along, and set an operator's mode.

Importing this package imports neither rich nor shtab.
"""
