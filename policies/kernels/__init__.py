"""What costs the most time of a network: attention, the LSTM, products of matrices, in torch and compiled.

Each is a module with its form in torch, which is the reference, and the compiled one beside it (`_*.pyx`).
"""
