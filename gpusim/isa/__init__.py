"""Instructions: decoding of SASS text, control words, and the table of what each opcode does."""
