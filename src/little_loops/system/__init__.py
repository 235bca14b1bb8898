"""The operating system: processes, process trees, files, clocks, signals, output."""
