/* What an LSTM does beside its matrix products: one step of the gates of one row, forwards and backwards. */
#include "vector_math.h"

PART float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

PART float hyperbolic_tangent(float x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

typedef struct {
    float *gates;            /* (4 * size,) of a row, gate_stride floats apart: enter, forget, candidate, leave; forwards
                                what the input gives them comes in, their values go out */
    float *d_gates;          /* likewise: their gradients, written backwards */
    const float *recurrent;  /* (rows, 4 * size): what the hidden state gives them; NULL backwards */
    const float *before;     /* (size,) of a row, before_stride floats apart: the cell before, cleared where asked */
    float *cell;             /* (size,) of a row, cell_stride floats apart: the cell after; backwards it is read */
    float *hidden;           /* (size,) of a row, hidden_stride floats apart, written; NULL backwards */
    const float *d_hidden;   /* (size,) of a row, hidden_stride floats apart: what flows back from the output */
    const float *d_recurrent;/* (rows, size): and from the next step */
    float *d_cell;           /* (rows, size), in: what flows back into the cell after; out: into the cell before */
    int64_t size, gate_stride, before_stride, cell_stride, hidden_stride;
} GateStep;

WIDEST static void lstm_gates(const GateStep *a, int64_t row) {
    const int64_t n = a->size;
    float *restrict gates = a->gates + row * a->gate_stride, *restrict cell = a->cell + row * a->cell_stride;
    float *restrict hidden = a->hidden + row * a->hidden_stride;
    const float *restrict recurrent = a->recurrent + row * 4 * n, *restrict before = a->before + row * a->before_stride;
    for (int64_t i = 0; i < n; i++) {
        const float enter = sigmoid(gates[i] + recurrent[i]), forget = sigmoid(gates[n + i] + recurrent[n + i]);
        const float candidate = hyperbolic_tangent(gates[2 * n + i] + recurrent[2 * n + i]);
        const float leave = sigmoid(gates[3 * n + i] + recurrent[3 * n + i]);
        gates[i] = enter, gates[n + i] = forget, gates[2 * n + i] = candidate, gates[3 * n + i] = leave;
        cell[i] = forget * before[i] + enter * candidate;
        hidden[i] = leave * hyperbolic_tangent(cell[i]);
    }
}

WIDEST static void lstm_gates_backwards(const GateStep *a, int64_t row) {
    const int64_t n = a->size;
    const float *restrict gates = a->gates + row * a->gate_stride;
    float *restrict d_gates = a->d_gates + row * a->gate_stride, *restrict d_cell = a->d_cell + row * n;
    const float *restrict cell = a->cell + row * a->cell_stride, *restrict before = a->before + row * a->before_stride;
    const float *restrict d_out = a->d_hidden + row * a->hidden_stride;
    const float *restrict d_next = a->d_recurrent + row * n;
    for (int64_t i = 0; i < n; i++) {
        const float enter = gates[i], forget = gates[n + i], candidate = gates[2 * n + i], leave = gates[3 * n + i];
        const float shown = hyperbolic_tangent(cell[i]), d_hidden = d_out[i] + d_next[i];
        const float d = d_cell[i] + d_hidden * leave * (1.0f - shown * shown);
        d_gates[i] = d * candidate * enter * (1.0f - enter);
        d_gates[n + i] = d * before[i] * forget * (1.0f - forget);
        d_gates[2 * n + i] = d * enter * (1.0f - candidate * candidate);
        d_gates[3 * n + i] = d_hidden * shown * leave * (1.0f - leave);
        d_cell[i] = d * forget;
    }
}
