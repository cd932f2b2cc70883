/* The Attentive Kernel over rough bases, for conditional.c, which includes this once for each kind
 * of processor:
 *
 *   k_ij = s_i s_j D_ij T_ij,  D = sum_m w_im w_jm,  T = sum_m w_im w_jm E_m,
 *   E_m = exp(-(r / l_m)^g),  r^2 = |x_i - x_j|^2 + NEAR,  k_ii = s_i^2
 *
 * The weights w of a point are the exponentials of its logits, of unit norm.
 */

/* The weights in the place of the logits, and s. */
INLINE void FOR_LANES(attentive_local)(const Problem *q, G *g, int64_t i)
{
    V *f = g->f + i * (1 + q->bases), most = f[1], squared = (V){0};
    for (int64_t m = 2; m <= q->bases; m++)
        most = FOR_LANES(choose)(f[m] > most, f[m], most);
    for (int64_t m = 1; m <= q->bases; m++) {
        f[m] = FOR_LANES(exp2)((f[m] - most) * LOG2_E);
        squared += f[m] * f[m];
    }
    const V inverse = 1.0 / FOR_LANES(root)(squared);
    for (int64_t m = 1; m <= q->bases; m++)
        f[m] *= inverse;
    g->scale[i] = FOR_LANES(exp2)(f[0] * LOG2_E);
}

/* The covariance of two points, 0 where one is not there; log2 r^2 and r^g are kept, and E
 * [bases]. decay [bases]: l^-g log2(e). */
INLINE V FOR_LANES(attentive_covariance)(const Problem *q, const G *g, const double *decay,
                                         int64_t i, int64_t j, FOR_LANES(Power) *kept, V *E)
{
    const V dx = g->x[i] - g->x[j], dy = g->y[i] - g->y[j];
    const V *one = g->f + i * (1 + q->bases) + 1, *two = g->f + j * (1 + q->bases) + 1;
    kept->log_Q = FOR_LANES(log2)(dx * dx + dy * dy + NEAR);
    kept->P = FOR_LANES(exp2)(kept->log_Q * (0.5 * q->exponent));
    V D = (V){0}, T = (V){0};
    for (int64_t m = 0; m < q->bases; m++) {
        const V both = one[m] * two[m];
        E[m] = FOR_LANES(exp2)(kept->P * -decay[m]);
        D += both;
        T += both * E[m];
    }
    return g->scale[i] * g->scale[j] * D * T * g->present[i] * g->present[j];
}

INLINE void FOR_LANES(attentive_system)(const Problem *q, G *g, V *K, V *c, V *c0,
                                        FOR_LANES(Power) *powers, V *E)
{
    const int64_t k = q->neighbours, M = q->bases;
    double decay[MAX_BASES];
    for (int64_t m = 0; m < M; m++)
        decay[m] = pow(q->lengths[m], -q->exponent) * LOG2_E;
    for (int64_t i = 0; i <= k; i++)
        FOR_LANES(attentive_local)(q, g, i);
    for (int64_t i = 0; i <= k; i++)
        for (int64_t j = 0; j < i; j++)
            *(i < k ? K + AT(i, j) : c + j) = FOR_LANES(attentive_covariance)(
                q, g, decay, i, j, powers + AT(i, j), E + M * AT(i, j));
    for (int64_t i = 0; i < k; i++)
        K[AT(i, i)] = FOR_LANES(diagonal)(q, g, 1 + M, i);
    *c0 = FOR_LANES(amplitude)(g, 1 + M, k);
}

/* As backward: of the loss by each point's log s and weights, then logits, and by the exponent. */
INLINE void FOR_LANES(attentive_backward)(const Problem *q, const G *g,
                                          const FOR_LANES(Power) *powers, const V *exponentials,
                                          const V solved[][3], V by_mean, V by_variance,
                                          Gradient *out)
{
    const int64_t k = q->neighbours, M = q->bases, fields = 1 + M;
    V sums[POINTS * (1 + MAX_BASES)], by_exponent = (V){0}, by_noise = (V){0};
    double rate[MAX_BASES], log_l[MAX_BASES];
    for (int64_t m = 0; m < M; m++) {
        rate[m] = pow(q->lengths[m], -q->exponent);
        log_l[m] = log(q->lengths[m]);
    }
    memset(sums, 0, (k + 1) * fields * sizeof *sums);
    for (int64_t i = 0; i <= k; i++) {
        const V a_i = i < k ? solved[i][0] : (V){0}, b_i = i < k ? solved[i][1] : (V){0} - 1.0;
        const V push = 2.0 * by_variance * b_i - by_mean * a_i, pull = by_mean * b_i;
        const V *one = g->f + i * fields + 1;
        V *sum_i = sums + i * fields;
        for (int64_t j = 0; j < i; j++) {
            const FOR_LANES(Power) power = powers[AT(i, j)];
            const V *E = exponentials + M * AT(i, j), *two = g->f + j * fields + 1;
            const V by_DT = (push * solved[j][1] - pull * solved[j][0]) * g->scale[i] * g->scale[j];
            const V log_r = power.log_Q * (0.5 * LN_2);
            V *sum_j = sums + j * fields, D = (V){0}, T = (V){0}, steep = (V){0};
            for (int64_t m = 0; m < M; m++) {
                const V both = one[m] * two[m], part = both * E[m];
                D += both;
                T += part;
                steep += part * (log_r - log_l[m]) * rate[m];
            }
            for (int64_t m = 0; m < M; m++) {
                const V by_both = by_DT * (T + D * E[m]);
                sum_i[1 + m] += by_both * two[m];
                sum_j[1 + m] += by_both * one[m];
            }
            sum_i[0] += by_DT * D * T;
            sum_j[0] += by_DT * D * T;
            by_exponent -= by_DT * D * steep * power.P;
        }
        const V own = (by_variance * b_i - by_mean * a_i) * b_i * g->present[i];
        sum_i[0] += 2.0 * own * FOR_LANES(amplitude)(g, fields, i);
        if (i < k)
            by_noise += own * g->noise[i];
    }
    for (int64_t i = 0; i <= k; i++) {
        const V *w = g->f + i * fields;
        V *d = sums + i * fields, along = (V){0};
        for (int64_t m = 1; m <= M; m++)
            along += d[m] * w[m];
        for (int64_t m = 1; m <= M; m++)
            d[m] = w[m] * (d[m] - w[m] * along);
        FOR_LANES(deposit)(q, g, fields, i, d, out->dF);
    }
    out->exponent += FOR_LANES(total)(by_exponent);
    out->variance += FOR_LANES(total)(by_noise);
}
