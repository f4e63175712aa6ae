"""Kernels that were run on a GPU to find a rule or to prove one: arithmetic, accesses, tags, stride."""
