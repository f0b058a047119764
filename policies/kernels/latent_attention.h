/* Attention of one row's heads over a few latents, which are keys and values of all of them, forwards and backwards. */
#include "vector_math.h"

typedef struct {
    const float *sought;    /* (rows, heads, width): what each head looks for */
    const float *latents;   /* (rows, num_latents, width) */
    float *share;           /* (rows, heads, num_latents): of each latent in what a head finds; written forwards */
    float *found;           /* (rows, heads, width), written forwards */
    const float *d_found;   /* gradients, of the shapes above */
    float *d_sought, *d_latents;
    float *d_score;         /* (rows, heads, num_latents): a workspace */
    int64_t heads, num_latents, width;
    float scale;            /* of the scores */
} LatentAttention;

#define UNROLLED _Pragma("GCC unroll 4") /* so that what is summed stays in registers */

/* The products of x (width,) with each of lines (num, width). */
PART void products(const float *x, const float *lines, int64_t num, int64_t width, float *out) {
    const int64_t whole = width / LANES * LANES;
    int64_t i = 0;
    for (; i + 4 <= num; i += 4, lines += 4 * width) {
        lanes sum[4] = {{0}};
        for (int64_t w = 0; w < whole; w += LANES) UNROLLED
            for (int k = 0; k < 4; k++) sum[k] += LANES_AT(x + w) * LANES_AT(lines + k * width + w);
        for (int k = 0; k < 4; k++) out[i + k] = sum_of(sum[k]) + dot(x + whole, lines + k * width + whole, width - whole);
    }
    for (; i < num; i++, lines += width) out[i] = dot(x, lines, width);
}

/* The sum of lines (num, width), each times its weight, plus what `more` holds or nothing; weights lie `apart`. */
PART void mix(const float *weight, int64_t apart, const float *lines, int64_t num, int64_t width, const float *more,
              float *out) {
    int64_t w = 0;
    for (; w + 4 * LANES <= width; w += 4 * LANES) {
        lanes sum[4] = {{0}};
        if (more) UNROLLED
            for (int k = 0; k < 4; k++) sum[k] = LANES_AT(more + w + k * LANES);
        for (int64_t i = 0; i < num; i++) UNROLLED
            for (int k = 0; k < 4; k++) sum[k] += weight[i * apart] * LANES_AT(lines + i * width + w + k * LANES);
        UNROLLED
        for (int k = 0; k < 4; k++) *(lanes *)(out + w + k * LANES) = sum[k];
    }
    for (; w < width; w++) {
        float sum = more ? more[w] : 0.0f;
        for (int64_t i = 0; i < num; i++) sum += weight[i * apart] * lines[i * width + w];
        out[w] = sum;
    }
}

/* Scores (num,) as shares. */
PART void softmax(float *score, int64_t num, float scale) {
    float most = score[0], total = 0.0f;
    for (int64_t i = 1; i < num; i++) most = score[i] > most ? score[i] : most;
    for (int64_t i = 0; i < num; i += LANES)
        store(exponential((load(score + i, num - i) - most) * scale), score + i, num - i);
    for (int64_t i = 0; i < num; i++) total += score[i];
    for (int64_t i = 0; i < num; i++) score[i] /= total;
}

WIDEST static void latent_attention(const LatentAttention *a, int64_t row) {
    const float *latents = a->latents + row * a->num_latents * a->width;
    for (int64_t head = row * a->heads; head < (row + 1) * a->heads; head++) {
        float *share = a->share + head * a->num_latents;
        products(a->sought + head * a->width, latents, a->num_latents, a->width, share);
        softmax(share, a->num_latents, a->scale);
        mix(share, 1, latents, a->num_latents, a->width, NULL, a->found + head * a->width);
    }
}

WIDEST static void latent_attention_backwards(const LatentAttention *a, int64_t row) {
    const int64_t num = a->num_latents, width = a->width, first = row * a->heads;
    const float *latents = a->latents + row * num * width;
    for (int64_t head = first; head < first + a->heads; head++) {
        const float *share = a->share + head * num;
        float *d_score = a->d_score + head * num, mean = 0.0f;
        products(a->d_found + head * width, latents, num, width, d_score);
        for (int64_t i = 0; i < num; i++) mean += share[i] * d_score[i];
        for (int64_t i = 0; i < num; i++) d_score[i] = share[i] * (d_score[i] - mean) * a->scale;
        mix(d_score, 1, latents, num, width, NULL, a->d_sought + head * width);
    }
    for (int64_t i = 0; i < num; i++) {
        float *d_latent = a->d_latents + (row * num + i) * width;
        mix(a->share + first * num + i, num, a->d_found + first * width, a->heads, width, NULL, d_latent);
        mix(a->d_score + first * num + i, num, a->sought + first * width, a->heads, width, d_latent, d_latent);
    }
}
