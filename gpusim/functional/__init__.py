"""Execution: each warp of a launch runs the kernel's own SASS, 32 lanes at a time, on the CPU."""
