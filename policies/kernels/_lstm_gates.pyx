"""The gates of an LSTM's step, compiled, with their gradients: float32 on a CPU, rows shared out to torch's threads.

`lstm.py` says when they are used, and has the torch form that tests hold it to.
"""

from cython.parallel cimport prange

include "tensors.pxi"

cdef extern from "lstm_gates.h":
    ctypedef struct GateStep:
        const float* given
        const float* recurrent
        const float* bias
        float* gates
        float* d_gates
        const float* before
        float* cell
        float* hidden
        const float* d_hidden
        const float* d_recurrent
        float* d_cell
        int64_t size, given_stride, gate_stride, before_stride, cell_stride, hidden_stride
    void lstm_gates(const GateStep* a, int64_t row) noexcept nogil
    void lstm_gates_backwards(const GateStep* a, int64_t row) noexcept nogil


def forward(given, recurrent, bias, before, gates, cell, hidden, int threads):
    """Writes the values of the gates (n, 4 * size), and the next cell and hidden (n, size).

    given: what the input gives the gates i, f, g, o (it may be `gates`); recurrent (n, 4 * size),
    contiguous, or None: what the hidden state adds; bias (4 * size,) or None; before (n, size): the cell before. The
    last axis of each is contiguous.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
    """
    cdef GateStep a
    cdef int64_t row, rows = gates.shape[0]
    a.size = before.shape[1]
    cdef tuple of_gates = (rows, 4 * a.size), of_state = (rows, a.size)
    a.given, a.given_stride = rows_of_floats(given, "given", of_gates), given.stride(0)
    a.recurrent = NULL if recurrent is None else floats(recurrent, "recurrent", of_gates)
    a.bias = NULL if bias is None else floats(bias, "bias", (4 * a.size,))
    a.gates, a.gate_stride = rows_of_floats(gates, "gates", of_gates), gates.stride(0)
    a.before, a.before_stride = rows_of_floats(before, "before", of_state), before.stride(0)
    a.cell, a.cell_stride = rows_of_floats(cell, "cell", of_state), cell.stride(0)
    a.hidden, a.hidden_stride = rows_of_floats(hidden, "hidden", of_state), hidden.stride(0)
    for row in prange(rows, nogil=True, num_threads=threads, schedule="static"):
        lstm_gates(&a, row)


def backward(gates, before, cell, d_hidden, d_recurrent, d_cell, d_gates, int threads):
    """Writes the gradients of the gates into d_gates (n, 4 * size), and that of `before` over d_cell (n, size).

    gates, laid out as d_gates: their values; before, cell (n, size): the cell before and after; d_hidden, d_recurrent
    (n, size): what flows back into the hidden state from the output and from the next step; d_cell: and into the cell
    after. d_recurrent and d_cell are contiguous.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
    """
    cdef GateStep a
    cdef int64_t row, rows = gates.shape[0]
    a.size = before.shape[1]
    cdef tuple of_gates = (rows, 4 * a.size), of_state = (rows, a.size)
    a.gates, a.gate_stride = rows_of_floats(gates, "gates", of_gates), gates.stride(0)
    a.d_gates = rows_of_floats(d_gates, "d_gates", of_gates)
    if d_gates.stride(0) != a.gate_stride and rows > 1:
        refuse(d_gates, "d_gates", FLOAT32, of_gates, "laid out as gates")
    a.before, a.before_stride = rows_of_floats(before, "before", of_state), before.stride(0)
    a.cell, a.cell_stride = rows_of_floats(cell, "cell", of_state), cell.stride(0)
    a.d_hidden, a.hidden_stride = rows_of_floats(d_hidden, "d_hidden", of_state), d_hidden.stride(0)
    a.d_recurrent = floats(d_recurrent, "d_recurrent", of_state)
    a.d_cell = floats(d_cell, "d_cell", of_state)
    for row in prange(rows, nogil=True, num_threads=threads, schedule="static"):
        lstm_gates_backwards(&a, row)
