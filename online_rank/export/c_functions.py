"""The functions of C that the layers of a model call."""

#: The functions that layers call. Each makes columns b (n, k), row by row, of columns a (n, d).
HELPERS = {
    "find": """/* How many of the k ascending numbers are <= x. */
static int NAME_find(double x, const double *numbers, int k) {
    int low = 0, high = k;
    while (low < high) {
        int middle = (low + high) / 2;
        if (numbers[middle] <= x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
""",
    "take": """static void NAME_take(const double *a, int n, int d, int k, const int *columns, double *b) {
    for (int i = 0; i < n; ++i) {
        for (int c = 0; c < k; ++c) {
            b[i * k + c] = columns[c] < 0 ? 0.0 : a[i * d + columns[c]];
        }
    }
}
""",
    "scale": """static void NAME_scale(const double *a, int n, int d, const double *means, const double *factors, double *b) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < d; ++j) {
            b[i * d + j] = (a[i * d + j] - means[j]) * factors[j];
        }
    }
}
""",
    "curves": """static void NAME_curves(const double *a, int n, int d, int k, const int *sources, const int *starts,
                        const int *sizes, const double *xs, const double *ys, const double *slopes, double *b) {
    for (int i = 0; i < n; ++i) {
        for (int c = 0; c < k; ++c) {
            double x = a[i * d + sources[c]];
            const double *u = xs + starts[c], *v = ys + starts[c], *s = slopes + starts[c];
            int last = sizes[c] - 1, place = last < 0 ? 0 : NAME_find(x, u, sizes[c]);
            if (last >= 0) {
                x = place == 0 ? v[0] : place > last ? v[last]
                    : v[place - 1] + (x - u[place - 1]) * s[place - 1];
            }
            b[i * k + c] = x;
        }
    }
}
""",
    "in_query": """/* Of column sources[c] its value, or what it is in the query: standardised, or from 0 to 1.
   Sums are over differences from the first document, as where trees learned their thresholds: one bit decides at those. */
static void NAME_in_query(const double *a, int n, int d, int k, const int *sources, const int *relative, const int *centred,
                          int how, double soft, double *b) {
    for (int c = 0; c < k; ++c) {
        const double *x = a + sources[c];
        double first = n ? x[0] : 0.0, low = first, high = first, sum = 0.0, square = 0.0;
        for (int i = 0; i < n; ++i) {
            double difference = x[i * d] - first;
            low = x[i * d] < low ? x[i * d] : low;
            high = x[i * d] > high ? x[i * d] : high;
            sum += difference;
            square += difference * difference;
        }
        double shift = n ? sum / n : 0.0, mean = first + shift;
        square -= sum * shift;
        double deviation = (square > 0.0 ? sqrt(square / n) : 0.0) + soft;
        double factor = high > low && deviation > 0.0 ? 1.0 / deviation : 0.0;
        for (int i = 0; i < n; ++i) {
            double value = x[i * d];
            if (relative[c]) {
                double start = centred[c] ? mean : 0.0;
                value = !how ? (value - start) * factor : high > low ? (value - low) / (high - low) : 0.0;
            }
            b[i * k + c] = value;
        }
    }
}
""",
    "linear": """static void NAME_linear(const double *a, int n, int d, const double *weights, double *scores) {
    for (int i = 0; i < n; ++i) {
        double sum = 0.0;
        for (int j = 0; j < d; ++j) {
            sum += weights[j] * a[i * d + j];
        }
        scores[i] = sum;
    }
}
""",
    "dense": """static void NAME_dense(const double *a, int n, int d, int k, const double *weights, const double *biases,
                       int relu, double *b) {
    for (int i = 0; i < n; ++i) {
        for (int c = 0; c < k; ++c) {
            double sum = biases[c];
            for (int j = 0; j < d; ++j) {
                sum += a[i * d + j] * weights[j * k + c];
            }
            b[i * k + c] = relu ? (sum > 0.0 ? sum : 0.0) : tanh(sum);
        }
    }
}
""",
    "trees": """static void NAME_trees(const double *a, int n, int d, int k, const int *starts, const int *columns,
                       const double *thresholds, const int *left, const int *right, const double *values, double *scores) {
    for (int i = 0; i < n; ++i) {
        double sum = 0.0;
        for (int t = 0; t < k; ++t) {
            int node = starts[t];
            while (columns[node] >= 0) {
                node = starts[t] + (a[i * d + columns[node]] < thresholds[node] ? left[node] : right[node]);
            }
            sum += values[node];
        }
        scores[i] = sum;
    }
}
""",
    "blend": """static void NAME_blend(const double *own, int n, double weight, double *scores) {
    for (int i = 0; i < n; ++i) {
        scores[i] += weight * own[i];
    }
}
""",
}
