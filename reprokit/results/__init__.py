"""Records of benchmarks: their format and file, honest comparison, claims, tables, plots and the report."""
