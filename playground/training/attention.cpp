// Attention of one new position per slot over that slot's own keys and values, in bfloat16.
// Keys lie in blocks of 16 positions, [block][pair of dimensions][position][2], values in pairs of
// positions, [pair][dimension][2], so that both products are runs of VDPBF16PS on whole registers.
#include <immintrin.h>
#include <cmath>
#include <cstdint>
#include <cstring>

constexpr int D = 64, GROUP = 3;

static inline __m512bh load(const void* p) {
    __m512i raw = _mm512_loadu_si512(p);
    __m512bh out;
    std::memcpy(&out, &raw, 64);
    return out;
}

static inline __m512bh spread(const uint16_t* pair) {
    int32_t bits;
    std::memcpy(&bits, pair, 4);
    __m512i raw = _mm512_set1_epi32(bits);
    __m512bh out;
    std::memcpy(&out, &raw, 64);
    return out;
}

static inline uint16_t narrow(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bits += 0x7fff + ((bits >> 16) & 1);
    return bits >> 16;
}

// q [slots, kv, 3, 64] (scaled already), k [slots, kv, length/16, 32, 16, 2],
// v [slots, kv, length/2, 64, 2], counts [slots]: positions to look at, out like q.
extern "C" void attend(const uint16_t* q, const uint16_t* k, const uint16_t* v,
                       const int64_t* counts, uint16_t* out, int64_t slots, int64_t kv,
                       int64_t length) {
    alignas(64) static thread_local float scores[GROUP][8192];
    alignas(64) static thread_local uint16_t chances[GROUP][8192];
    for (int64_t s = 0; s < slots; ++s) {
        const int64_t n = counts[s], blocks = (n + 15) / 16;
        for (int64_t h = 0; h < kv; ++h) {
            const int64_t head = s * kv + h;
            const uint16_t* qh = q + head * GROUP * D;
            const uint16_t* kh = k + head * length * D;
            const uint16_t* vh = v + head * length * D;
            float top[GROUP] = {-INFINITY, -INFINITY, -INFINITY};
            for (int64_t b = 0; b < blocks; ++b) {
                __m512 sum[GROUP][2];
                for (int g = 0; g < GROUP; ++g) sum[g][0] = sum[g][1] = _mm512_setzero_ps();
                for (int d = 0; d < D / 2; ++d) {
                    const __m512bh keys = load(kh + (b * (D / 2) + d) * 32);
                    for (int g = 0; g < GROUP; ++g)
                        sum[g][d & 1] =
                            _mm512_dpbf16_ps(sum[g][d & 1], keys, spread(qh + g * D + 2 * d));
                }
                const int left = n - b * 16;
                const __mmask16 live = left >= 16 ? 0xffff : (1 << left) - 1;
                for (int g = 0; g < GROUP; ++g) {
                    __m512 x = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), live,
                                                  _mm512_add_ps(sum[g][0], sum[g][1]));
                    _mm512_store_ps(scores[g] + b * 16, x);
                    top[g] = std::fmax(top[g], _mm512_reduce_max_ps(x));
                }
            }
            float total[GROUP];
            for (int g = 0; g < GROUP; ++g) {
                float t = 0;
                for (int64_t i = 0; i < blocks * 16; ++i) {
                    const float e = i < n ? std::exp(scores[g][i] - top[g]) : 0.0f;
                    t += e;
                    chances[g][i] = narrow(e);
                }
                total[g] = t;
            }
            __m512 sum[GROUP][4];
            for (int g = 0; g < GROUP; ++g)
                for (int c = 0; c < 4; ++c) sum[g][c] = _mm512_setzero_ps();
            for (int64_t p = 0; p < (n + 1) / 2; ++p) {
                __m512bh w[GROUP];
                for (int g = 0; g < GROUP; ++g) w[g] = spread(chances[g] + 2 * p);
                for (int c = 0; c < 4; ++c) {
                    const __m512bh values = load(vh + p * D * 2 + c * 32);
                    for (int g = 0; g < GROUP; ++g)
                        sum[g][c] = _mm512_dpbf16_ps(sum[g][c], values, w[g]);
                }
            }
            for (int g = 0; g < GROUP; ++g) {
                alignas(64) float row[D];
                for (int c = 0; c < 4; ++c)
                    _mm512_store_ps(row + c * 16,
                                    _mm512_div_ps(sum[g][c], _mm512_set1_ps(total[g])));
                for (int d = 0; d < D; ++d) out[head * GROUP * D + g * D + d] = narrow(row[d]);
            }
        }
    }
}
