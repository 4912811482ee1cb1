/* The limit: the study loop of ppm in plain C, for `limit.py` to measure the compiled Python against.

   It reads what multileave.study.engine packs, for every query a block of int32 and some rows of R int32,

       depth, U | entering (depth) | labels (U)          lengths | top, transposed (depth) | ranks (U)

   and draws, clicks and infers as multileave does, word for word of the generator: the same seed gives the
   same pages, the same clicks and, but for rounding, the same credits. It is written for this one method,
   user and pair rule, so that nothing is passed that is not needed and no row of ranks is copied.

   gcc -O3 -march=native -shared -fPIC ppm.c -o ppm.so */

#include <stdint.h>
#include <string.h>

#define MOST_RANKERS 256
#define MOST_SHOWN 64
#define MOST_DOCUMENTS (MOST_RANKERS * MOST_SHOWN)

/* xoshiro256++ */
static inline uint64_t next_word(uint64_t *s)
{
    uint64_t total = s[0] + s[3];
    uint64_t word = ((total << 23) | (total >> 41)) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return word;
}

/* An integer from 0 to n - 1, by Lemire's method on the upper 32 bits. */
static inline uint64_t below(uint64_t *s, uint64_t n)
{
    uint64_t product = (next_word(s) >> 32) * n;
    if ((uint32_t)product < n) {
        uint64_t threshold = (0x100000000u - n) % n;
        while ((uint32_t)product < threshold)
            product = (next_word(s) >> 32) * n;
    }
    return product >> 32;
}

static inline double uniform(uint64_t *s)
{
    return (double)(next_word(s) >> 11) * 0x1p-53;
}

/* Draw from the choice sets; return how many documents were drawn. */
static inline int64_t draw(const int32_t *entering, int64_t depth, int64_t length, uint64_t *s, int32_t *shown,
                           int32_t *choices)
{
    int32_t pool[MOST_DOCUMENTS];
    int64_t size = 0, known = 0;
    for (int64_t x = 0; x < length; x++) {
        int64_t end = entering[x < depth ? x : depth - 1];
        while (known < end)
            pool[size++] = (int32_t)known++;
        if (size == 0)
            return x;
        uint64_t choice = below(s, (uint64_t)size);
        shown[x] = pool[choice];
        choices[x] = (int32_t)size;
        pool[choice] = pool[--size];
    }
    return length;
}

/* A cascade user who stops only after a click; return the position of the last click, -1 for none. */
static inline int64_t click(const int32_t *labels, const int32_t *shown, int64_t visible, const double *clicking,
                            const double *stopping, uint64_t *s, uint8_t *clicks)
{
    int64_t last = -1;
    for (int64_t x = 0; x < visible; x++) {
        int32_t grade = labels[shown[x]];
        clicks[x] = uniform(s) < clicking[grade];
        if (clicks[x]) {
            last = x;
            if (uniform(s) < stopping[grade])
                break;
        }
    }
    return last;
}

/* Add the credits of the pairs that the equation prefers: every clicked document to every unclicked one
   above the last click or directly below it. */
static inline void credit(const int32_t *ranks, int64_t rankers, const int32_t *shown, const int32_t *choices,
                          const uint8_t *clicks, int64_t seen, double *restrict credits)
{
    int32_t best[MOST_SHOWN + 1];
    double stay[MOST_SHOWN + 1];
    stay[0] = 1.0;
    for (int64_t x = 0; x < seen; x++) {
        const int32_t *row = ranks + shown[x] * rankers;
        int32_t least = INT32_MAX;
        for (int64_t n = 0; n < rankers; n++)
            least = row[n] < least ? row[n] : least;
        best[x] = least;
        stay[x + 1] = choices[x] > 1 ? stay[x] * (1.0 - 1.0 / choices[x]) : stay[x];
    }
    for (int64_t j = 0; j < seen; j++) {
        if (clicks[j])
            continue;
        const int32_t *other = ranks + shown[j] * rankers;
        for (int64_t i = 0; i < seen; i++) {
            if (!clicks[i])
                continue;
            int32_t threshold = best[i] > best[j] ? best[i] : best[j];
            int32_t first = best[i] < best[j] ? best[i] : best[j];
            if ((i < j ? i : j) + 1 < threshold)
                continue;
            const int32_t *row = ranks + shown[i] * rankers;
            double weight = stay[first - 1] / stay[threshold - 1];
            for (int64_t n = 0; n < rankers; n++)
                credits[n] += weight * ((row[n] < other[n]) - (row[n] > other[n]));
        }
    }
}

/* Simulate impressions and add their credits to `total` (R); 0 if the sizes are within the limits. */
int simulate(int64_t impressions, const int32_t *blocks, const int32_t *rows, const int64_t *starts, int64_t queries,
             int64_t rankers, int64_t k, const double *user, int64_t grades, uint64_t *rng, double *total)
{
    if (rankers > MOST_RANKERS || k + 1 > MOST_SHOWN)
        return 1;
    int32_t shown[MOST_SHOWN], choices[MOST_SHOWN];
    uint8_t clicks[MOST_SHOWN + 1];
    double credits[MOST_RANKERS];
    uint64_t s[4] = {rng[0], rng[1], rng[2], rng[3]};
    for (int64_t impression = 0; impression < impressions; impression++) {
        const int64_t *start = starts + 2 * below(s, (uint64_t)queries);
        const int32_t *block = blocks + start[0];
        int64_t depth = block[0];
        const int32_t *entering = block + 2;
        const int32_t *labels = entering + depth;
        const int32_t *ranks = rows + rankers * (start[1] + 1 + depth);
        int64_t m = draw(entering, depth, k + 1, s, shown, choices);
        int64_t last = click(labels, shown, m < k ? m : k, user, user + grades, s, clicks);
        if (last < 0)
            continue;
        int64_t seen = last + 1;
        if (seen < m)
            clicks[seen++] = 0;
        memset(credits, 0, sizeof(double) * (size_t)rankers);
        credit(ranks, rankers, shown, choices, clicks, seen, credits);
        for (int64_t n = 0; n < rankers; n++)
            total[n] += credits[n];
    }
    memcpy(rng, s, sizeof s);
    return 0;
}
