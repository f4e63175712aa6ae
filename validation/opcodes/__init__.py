"""Opcode truth: every opcode form run on a GPU and in the simulator, from the same patched binary."""
