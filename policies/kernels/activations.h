/* What stands between linear layers, number by number. */
#include "vector_math.h"

WIDEST static void tanh_of(const float *x, int64_t num, float *out) {
    for (int64_t i = 0; i < num; i += LANES) store(hyperbolic_tangent(load(x + i, num - i)), out + i, num - i);
}
