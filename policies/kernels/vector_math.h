/* Vectorised float arithmetic, shared by the compiled parts of the network.
 *
 * Sums are kept in vectors of LANES floats (an extension that GCC and Clang share, on any processor); with GCC on x86-64
 * Linux a version of every function marked WIDEST is built for each width and chosen when loaded.
 */
#ifndef LEAGUE_VECTOR_MATH_H
#define LEAGUE_VECTOR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t whole_lanes __attribute__((vector_size(4 * LANES)));
typedef float lanes8 __attribute__((vector_size(32)));
typedef float lanes4 __attribute__((vector_size(16)));
#define LANES_AT(p) (*(const lanes *)(p))

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define WIDEST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDEST
#endif

/* What such a function calls must become part of it: on its own it would be built for the narrowest alone. */
#define PART static inline __attribute__((always_inline))

PART float sum_of(lanes x) {
    lanes8 low, high;
    lanes4 left, right;
    memcpy(&low, &x, sizeof low);
    memcpy(&high, (const char *)&x + sizeof low, sizeof high);
    low += high;
    memcpy(&left, &low, sizeof left);
    memcpy(&right, (const char *)&low + sizeof left, sizeof right);
    left += right;
    return (left[0] + left[2]) + (left[1] + left[3]);
}

PART float dot(const float *a, const float *b, int64_t n) {
    lanes sum = {0};
    float rest = 0.0f;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) sum += LANES_AT(a + i) * LANES_AT(b + i);
    for (; i < n; i++) rest += a[i] * b[i];
    return sum_of(sum) + rest;
}

/* The first `num` floats at p, 0 beyond; LANES of them where there are more. */
PART lanes load(const float *p, int64_t num) {
    lanes x = {0};
    if (num >= LANES) return LANES_AT(p);
    memcpy(&x, p, num * sizeof(float));
    return x;
}

PART void store(lanes x, float *p, int64_t num) {
    if (num >= LANES)
        *(lanes *)p = x;
    else
        memcpy(p, &x, num * sizeof(float));
}

/* x (2 * half,) as two halves of complex numbers, turned by the angles and scaled. */
PART void turn(const float *x, const float *cosine, const float *sine, int64_t half, float scale, float *out) {
    for (int64_t i = 0; i < half; i += LANES) {
        const int64_t left = half - i;
        const lanes a = load(x + i, left), b = load(x + half + i, left);
        const lanes c = load(cosine + i, left) * scale, s = load(sine + i, left) * scale;
        store(a * c - b * s, out + i, left);
        store(a * s + b * c, out + half + i, left);
    }
}

/* The inverse of `turn`, scaled: its transpose, since it only turns. */
PART void turn_back(const float *x, const float *cosine, const float *sine, int64_t half, float scale, float *out) {
    for (int64_t i = 0; i < half; i += LANES) {
        const int64_t left = half - i;
        const lanes a = load(x + i, left), b = load(x + half + i, left);
        const lanes c = load(cosine + i, left) * scale, s = load(sine + i, left) * scale;
        store(a * c + b * s, out + i, left);
        store(b * c - a * s, out + half + i, left);
    }
}

PART void copy(const float *from, int64_t num, float scale, float *to) {
    for (int64_t i = 0; i < num; i += LANES) store(load(from + i, num - i) * scale, to + i, num - i);
}

/* a where mask is -1, b where it is 0. */
PART lanes choose(whole_lanes mask, lanes a, lanes b) {
    return (lanes)((mask & (whole_lanes)a) | (~mask & (whole_lanes)b));
}

/* The greater of the two, and NaN where b is that. */
PART lanes greater(lanes a, lanes b) { return choose(a > b, a, b); }

PART float largest_of(lanes x) {
    float all[LANES], most = -INFINITY;
    memcpy(all, &x, sizeof all);
    for (int l = 0; l < 8; l++) all[l] = all[l] > all[l + 8] ? all[l] : all[l + 8];
    for (int l = 0; l < 4; l++) all[l] = all[l] > all[l + 4] ? all[l] : all[l + 4];
    for (int l = 0; l < 4; l++) most = all[l] > most ? all[l] : most;
    return most;
}

/* exp(x) for x between -80 and 88, outside of which it is as at the nearer end (2e-35: its shares are no denormal numbers,
 * which are slow); to 2 units in the last place: 2^n by the exponent bits times a Taylor polynomial on
 * [-ln 2 / 2, ln 2 / 2] whose first omitted term is below 1e-8. */
PART lanes exponential(lanes x) {
    const lanes zero = {0}, shift = zero + 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    const lanes clipped = -greater(zero - 88.0f, -greater(zero - 80.0f, x));
    const lanes whole = (clipped * 1.44269504f + shift) - shift;
    const lanes r = (clipped - whole * 0.693359375f) + whole * 2.12194440e-4f;
    lanes p = zero + 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (lanes)((__builtin_convertvector(whole, whole_lanes) + 127) << 23);
}

PART lanes sigmoid(lanes x) { return 1.0f / (1.0f + exponential(-x)); }

PART lanes hyperbolic_tangent(lanes x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

#endif
