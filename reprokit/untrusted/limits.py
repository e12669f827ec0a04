"""How much of a stranger's output is kept. Sizes in bytes."""

# Of each stream of a command whose output is judged: above what any benchmark of a paper prints.
COMMAND_OUTPUT = 64 << 20
# Of RE2's program and caches for one pattern.
PATTERN_MEMORY = 8 << 20
