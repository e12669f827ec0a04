"""Defences against files, texts and addresses from outside: limits on memory, count and time."""
