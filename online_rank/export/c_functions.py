"""The functions of C that a model calls."""

from online_rank.export.normal import NORMAL_MIDDLE, NORMAL_SPLIT, NORMAL_TAIL, polynomial

#: The functions, those that others call first. Columns are one after the other, each with the n documents of a query.
HELPERS = {
    "columns": """/* The columns a of the rows x (n, d), eight at a time. */
static void NAME_columns(const double *x, int n, int d, double *a) {
    for (int j = 0; j < d; j += 8) {
        for (int c = j; c < d && c < j + 8; ++c) {
            for (int i = 0; i < n; ++i) {
                a[(size_t)c * n + i] = x[(size_t)i * d + c];
            }
        }
    }
}
""",
    "find": """/* Values between the first and the last knot u of a curve, z, and how many knots after the first are <= each. */
static void NAME_find(const double *x, int n, const double *finder, const unsigned char *cells, const double *u,
                      double *z, int *at) {
    double low = finder[0], high = finder[1], scale = finder[2], one = 1.0;
    int origin = (int)finder[3], shift = (int)finder[4];
    long long bits, zero;
    memcpy(&zero, &one, sizeof zero);
    for (int i = 0; i < n; ++i) {
        double value = x[i] > low ? x[i] : low;
        z[i] = value < high ? value : high;
    }
    for (int i = 0; shift && i < n; ++i) {
        double value = 1.0 + fabs(z[i]) * scale;
        memcpy(&bits, &value, sizeof bits);
        int cell = (int)((bits - zero) >> shift);
        at[i] = cells[origin + (z[i] < 0.0 ? -cell : cell)];
    }
    for (int i = 0; !shift && i < n; ++i) {
        at[i] = cells[(int)((z[i] - low) * scale)];
    }
    for (int step = (1 << (int)finder[5]) >> 1; step; step >>= 1) {
        for (int i = 0; i < n; ++i) {
            at[i] += u[at[i] + step] <= z[i] ? step : 0;
        }
    }
}
""",
    "add": """/* Adds a curve to sums, by the places that were found. */
static void NAME_add(const double *x, int n, const double *z, const int *at, const double *u, const double *y,
                     const double *slopes, double missing, double *sums) {
    for (int i = 0; i < n; ++i) {
        double value = y[at[i]] + (z[i] - u[at[i]]) * slopes[at[i]];
        sums[i] += x[i] == x[i] ? value : missing;
    }
}
""",
    "curves": """/* Curves of columns a; their sum, or each in a column of b. */
static void NAME_curves(const double *a, int n, int k, const int *sources, const NAME_curve *curves, int sum, double *b,
                        double *z, int *at) {
    memset(b, 0, (size_t)n * (sum ? 1 : k) * sizeof(double));
    for (int c = 0; c < k; ++c) {
        const NAME_curve *own = curves + c;
        const double *x = a + (size_t)sources[c] * n;
        NAME_find(x, n, own->finder, own->cells, own->u, z, at);
        NAME_add(x, n, z, at, own->u, own->y, own->slopes, own->missing, b + (sum ? 0 : (size_t)c * n));
    }
}
""",
    "normal": """/* Normal scores of k / (2 m), 0 < k < 2 m: Acklam's approximations. */
static void NAME_normal(int m, double *scores) {
    scores[m] = 0.0;
    for (int k = 1; k < m; ++k) {
        double p = k / (2.0 * m), t;
        if (p < SPLIT) {
            t = sqrt(-2.0 * log(p));
            scores[k] = TAIL_UP / TAIL_DOWN;
        } else {
            t = (p - 0.5) * (p - 0.5);
            scores[k] = (p - 0.5) * MIDDLE_UP / MIDDLE_DOWN;
        }
        scores[2 * m - k] = -scores[k];
    }
}
""",
    "rank": """/* 2 rank - 1 of the values that are not missing, in `ranks` by their places `owners`; how many there are.
   at: numbers below k, at most 256, that ascend with the values. */
static int NAME_rank(const double *x, const int *at, int n, int k, double *values, int *owners, int *ranks) {
    int counts[257] = {0}, *gains = ranks + n, m = 0, most = 0, unsorted = 0;
    for (int i = 0; i < n; ++i) {
        counts[at[i] + 1] += x[i] == x[i];
    }
    for (int c = 0; c < k; ++c) {
        most = counts[c + 1] > most ? counts[c + 1] : most;
        counts[c + 1] += counts[c];
    }
    for (int i = 0; i < n; ++i) {
        if (x[i] == x[i]) {
            int place = counts[at[i]]++;
            values[place] = x[i];
            owners[place] = i;
            ++m;
        }
    }
    if (most <= 16) {
        /* Of a pair, what the first gains the second loses. */
        for (int p = 0; p < m; ++p) {
            ranks[p] = 2 * p + 1;
        }
        for (int away = 1; away < most; ++away) {
            for (int p = 0; p < m - away; ++p) {
                gains[p] = (values[p + away] < values[p]) + (values[p + away] <= values[p]);
            }
            for (int p = 0; p < m - away; ++p) {
                ranks[p] += gains[p];
            }
            for (int p = 0; p < m - away; ++p) {
                ranks[p + away] -= gains[p];
            }
        }
        return m;
    }
    for (int p = 1; p < m; ++p) {
        unsorted |= values[p] < values[p - 1];
    }
    for (int gap = unsorted ? m / 2 : 0; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
        for (int p = gap; p < m; ++p) {
            double value = values[p];
            int owner = owners[p], place = p;
            for (; place >= gap && values[place - gap] > value; place -= gap) {
                values[place] = values[place - gap];
                owners[place] = owners[place - gap];
            }
            values[place] = value;
            owners[place] = owner;
        }
    }
    for (int first = 0, stop; first < m; first = stop) {
        for (stop = first + 1; stop < m && values[stop] == values[first]; ++stop) {
        }
        for (int p = first; p < stop; ++p) {
            ranks[p] = first + stop;
        }
    }
    return m;
}
""",
    "ranked": """/* The sum of two curves of each of the k columns a: of its values, and of the normal scores of their ranks. */
static void NAME_ranked(const double *a, int n, int k, const NAME_curve *curves, double *sums, double *z, int *at) {
    double *values = z + n, *q = values + n, *scores = q + n;
    int *owners = at + n, *ranks = owners + n, known = -1;
    memset(sums, 0, (size_t)n * sizeof(double));
    for (int c = 0; c < k; ++c) {
        const NAME_curve *own = curves + c, *ranked = own + k;
        const double *x = a + (size_t)c * n;
        NAME_find(x, n, own->finder, own->cells, own->u, z, at);
        NAME_add(x, n, z, at, own->u, own->y, own->slopes, own->missing, sums);
        int m = NAME_rank(x, at, n, own->knots, values, owners, ranks);
        if (m && m != known) {
            NAME_normal(known = m, scores);
        }
        for (int p = 0; p < m; ++p) {
            q[owners[p]] = scores[ranks[p]];
        }
        for (int i = 0; m < n && i < n; ++i) {
            q[i] = x[i] == x[i] ? q[i] : x[i];
        }
        NAME_find(q, n, ranked->finder, ranked->cells, ranked->u, z, at);
        NAME_add(q, n, z, at, ranked->u, ranked->y, ranked->slopes, 0.0, sums);
    }
}
""",
    "take": """static void NAME_take(const double *a, int n, int k, const int *columns, double *b) {
    for (int c = 0; c < k; ++c) {
        for (int i = 0; i < n; ++i) {
            b[(size_t)c * n + i] = columns[c] < 0 ? 0.0 : a[(size_t)columns[c] * n + i];
        }
    }
}
""",
    "crossed": """/* Products with columns that are the same for a whole query; a factor of -1 leaves a column as it is. */
static void NAME_crossed(const double *a, int n, int k, const int *sources, const int *factors, const int *only, double *b) {
    for (int c = 0; c < k; ++c) {
        const double *x = a + (size_t)sources[c] * n, *f = factors[c] < 0 ? NULL : a + (size_t)factors[c] * n;
        for (int i = 0; i < n; ++i) {
            b[(size_t)c * n + i] = f == NULL ? x[i] : only[c] && f[i] == 0.0 ? NAN : x[i] * f[i];
        }
    }
}
""",
    "scale": """static void NAME_scale(const double *a, int n, int d, const double *means, const double *factors, double *b) {
    for (int j = 0; j < d; ++j) {
        for (int i = 0; i < n; ++i) {
            b[(size_t)j * n + i] = (a[(size_t)j * n + i] - means[j]) * factors[j];
        }
    }
}
""",
    "in_query": """/* Of column sources[c] its value, or what it is in the query: standardised, or from 0 to 1.
   Sums are over differences from the first document, as where trees learned their thresholds: one bit decides at those. */
static void NAME_in_query(const double *a, int n, int k, const int *sources, const int *relative, const int *centred,
                          int how, double soft, double *b) {
    for (int c = 0; c < k; ++c, b += n) {
        const double *x = a + (size_t)sources[c] * n;
        double first = n ? x[0] : 0.0, low = first, high = first, sum = 0.0, square = 0.0;
        for (int i = 0; i < n; ++i) {
            double difference = x[i] - first;
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
            sum += difference;
            square += difference * difference;
        }
        double shift = n ? sum / n : 0.0, mean = first + shift;
        square -= sum * shift;
        double deviation = (square > 0.0 ? sqrt(square / n) : 0.0) + soft;
        double factor = high > low && deviation > 0.0 ? 1.0 / deviation : 0.0;
        for (int i = 0; i < n; ++i) {
            double value = x[i];
            if (relative[c]) {
                double start = centred[c] ? mean : 0.0;
                value = !how ? (value - start) * factor : high > low ? (value - low) / (high - low) : 0.0;
            }
            b[i] = value;
        }
    }
}
""",
    "linear": """static void NAME_linear(const double *a, int n, int d, const double *weights, double *scores) {
    for (int i = 0; i < n; ++i) {
        scores[i] = 0.0;
    }
    for (int j = 0; j < d; ++j) {
        for (int i = 0; i < n; ++i) {
            scores[i] += weights[j] * a[(size_t)j * n + i];
        }
    }
}
""",
    "dense": """static void NAME_dense(const double *a, int n, int d, int k, const double *weights, const double *biases,
                       int relu, double *b) {
    for (int c = 0; c < k; ++c, b += n) {
        for (int i = 0; i < n; ++i) {
            double sum = biases[c];
            for (int j = 0; j < d; ++j) {
                sum += a[(size_t)j * n + i] * weights[j * k + c];
            }
            b[i] = relu ? (sum > 0.0 ? sum : 0.0) : tanh(sum);
        }
    }
}
""",
    "trees": """/* The sum of k trees; columns of document i begin at a + i row, and are `column` apart. */
static void NAME_trees(const double *a, int n, int row, int column, int k, const int *starts, const int *depths,
                       const NAME_node *nodes, const double *values, double *scores, int *at) {
    memset(scores, 0, (size_t)n * sizeof(double));
    for (int t = 0; t < k; ++t) {
        for (int i = 0; i < n; ++i) {
            at[i] = starts[t];
        }
        for (int depth = depths[t]; depth; --depth) {
            for (int i = 0; i < n; ++i) {
                const NAME_node *node = nodes + at[i];
                at[i] = node->child + (a[(size_t)i * row + (size_t)node->column * column] >= node->threshold);
            }
        }
        for (int i = 0; i < n; ++i) {
            scores[i] += values[at[i]];
        }
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

_POLYNOMIALS = {
    "TAIL_UP": NORMAL_TAIL[0], "TAIL_DOWN": NORMAL_TAIL[1], "MIDDLE_UP": NORMAL_MIDDLE[0], "MIDDLE_DOWN": NORMAL_MIDDLE[1],
}  # fmt: skip
HELPERS["normal"] = HELPERS["normal"].replace("SPLIT", repr(NORMAL_SPLIT))
for _name, _coefficients in _POLYNOMIALS.items():
    HELPERS["normal"] = HELPERS["normal"].replace(_name, polynomial("t", _coefficients))

#: The functions that each of them calls, and the types that they take.
CALLED = {"curves": ("find", "add"), "ranked": ("find", "add", "normal", "rank")}
TYPES = {
    "curves": """/* A curve: its knots u, there its values y, and the slopes after them. */
typedef struct {
    const double *finder, *u, *y, *slopes;
    const unsigned char *cells;
    double missing;
    int knots;
} NAME_curve;
""",
    "trees": """/* Documents whose value is >= the threshold go to the child after this one; leaves are their own children. */
typedef struct {
    double threshold;
    int column, child;
} NAME_node;
""",
}
TYPES["ranked"] = TYPES["curves"]
