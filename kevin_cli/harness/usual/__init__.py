"""The usual judge of generated kernels, to be compared with: a program that decides nothing for kevin."""
