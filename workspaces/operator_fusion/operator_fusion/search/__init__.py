"""Searches for the fastest plan: strategies behind one interface, and the loop that measures what they propose."""
