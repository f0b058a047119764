/* What an LSTM does beside its matrix products: one step of the gates of one row, forwards and backwards. */
#include "vector_math.h"

typedef struct {
    const float *given;      /* (4 * size,) of a row, given_stride floats apart: what the input gives the gates */
    const float *recurrent;  /* (rows, 4 * size): what the hidden state adds; NULL: nothing */
    const float *bias;       /* (4 * size,), added; NULL: none */
    float *gates;            /* (4 * size,) of a row, gate_stride floats apart: i, f, g, o;
                                their values, written forwards */
    float *d_gates;          /* likewise: their gradients, written backwards */
    const float *before;     /* (size,) of a row, before_stride floats apart: the cell before, cleared where asked */
    float *cell;             /* (size,) of a row, cell_stride floats apart: the cell after; backwards it is read */
    float *hidden;           /* (size,) of a row, hidden_stride floats apart, written */
    const float *d_hidden;   /* (size,) of a row, hidden_stride floats apart: what flows back from the output */
    const float *d_recurrent;/* (rows, size): and from the next step */
    float *d_cell;           /* (rows, size), in: what flows back into the cell after; out: into the cell before */
    int64_t size, given_stride, gate_stride, before_stride, cell_stride, hidden_stride;
} GateStep;

WIDEST static void lstm_gates(const GateStep *a, int64_t row) {
    const int64_t n = a->size;
    const float *given = a->given + row * a->given_stride, *bias = a->bias;
    const float *recurrent = a->recurrent ? a->recurrent + row * 4 * n : NULL;
    float *gates = a->gates + row * a->gate_stride;
    const float *before = a->before + row * a->before_stride;
    float *cell = a->cell + row * a->cell_stride, *hidden = a->hidden + row * a->hidden_stride;
    const lanes none = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t left = n - i;
        lanes gate[4], after;
        for (int g = 0; g < 4; g++) {
            const int64_t at = g * n + i;
            lanes x = load(given + at, left) + (bias ? load(bias + at, left) : none);
            if (recurrent) x += load(recurrent + at, left);
            gate[g] = g == 2 ? hyperbolic_tangent(x) : sigmoid(x);
            store(gate[g], gates + at, left);
        }
        after = gate[1] * load(before + i, left) + gate[0] * gate[2];
        store(after, cell + i, left);
        store(gate[3] * hyperbolic_tangent(after), hidden + i, left);
    }
}

WIDEST static void lstm_gates_backwards(const GateStep *a, int64_t row) {
    const int64_t n = a->size;
    const float *gates = a->gates + row * a->gate_stride, *before = a->before + row * a->before_stride;
    const float *cell = a->cell + row * a->cell_stride;
    const float *d_out = a->d_hidden + row * a->hidden_stride, *d_next = a->d_recurrent + row * n;
    float *d_gates = a->d_gates + row * a->gate_stride, *d_cell = a->d_cell + row * n;
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t left = n - i;
        const lanes input = load(gates + i, left), forget = load(gates + n + i, left);
        const lanes candidate = load(gates + 2 * n + i, left), output = load(gates + 3 * n + i, left);
        const lanes shown = hyperbolic_tangent(load(cell + i, left));
        const lanes d_hidden = load(d_out + i, left) + load(d_next + i, left);
        const lanes d_after = load(d_cell + i, left) + d_hidden * output * (1.0f - shown * shown);
        store(d_after * candidate * input * (1.0f - input), d_gates + i, left);
        store(d_after * load(before + i, left) * forget * (1.0f - forget), d_gates + n + i, left);
        store(d_after * input * (1.0f - candidate * candidate), d_gates + 2 * n + i, left);
        store(d_hidden * shown * output * (1.0f - output), d_gates + 3 * n + i, left);
        store(d_after * forget, d_cell + i, left);
    }
}
