/* SPDX-License-Identifier: Apache-2.0 */
/* select.cu - what a packet keeps of each tensor: its k largest elements, or k random ones.
 *
 * Both are the k largest of some keys: magnitudes without their sign, or one random word for each
 * element; of equal keys the first are taken. The search is exact, and the same on every engine: a
 * radix search for the k-th largest key, eleven bits a pass from the top, counted in shared memory;
 * then one pass that takes what is above it and the first of its equals, in order of place.
 * Integers only, so the order in which counts come together does not matter.
 *
 * Most tensors are short, and one block selects each of them, in one launch for all. One block
 * alone moves a hundredth of what memory could give it; so a long tensor is cut into strips, a
 * block has a strip, and the passes become launches, between which the strips' counts come together
 * in a tally:
 *
 *     clear    the tallies
 *     first    counts first digits
 *     second   puts what has at least the digit that was found on the strip's list, in order of place,
 *              and counts second digits of what has just that
 *     third    counts third digits
 *     share    counts what each strip has above the bound, and equal to it
 *     take     takes; the strips before this one say where
 *
 * The row is read by the first and the second, sixteen bytes at a time: lists are as much longer
 * than what is kept as an eighth of an octave is wide, or a 2,000th of random words. A strip whose
 * list would not fit into half of its place in scratch (many equal elements) has all of its keys
 * there instead.
 */
#include "engine/cuda/packet.cuh"

enum {
    PICK_BLOCK = 1024, /* threads that select a short tensor */
    PICK_EACH = 8,     /* elements of each thread, of a chunk */
    DIGIT = 11,
    DIGITS = 1 << DIGIT,
    PASSES = 3,      /* 11, 11 and 10 bits */
    STRIP = 1 << 15, /* elements */
    LONG = 1 << 16   /* a tensor of so many is cut into strips */
};

/* --- tensors --------------------------------------------------------------------------------- */

/* A tensor: struct oct__part, smaller, and its number in the form. */
struct choice {
    uint32_t offset, count, keep, first;
    uint32_t scale, number;
    uint32_t strips_end; /* strips of the launch's tensors up to and with this one */
};

/* The tensors of a launch: short ones, or long ones. */
struct choices {
    uint32_t n, next;                  /* next: where the form goes on */
    uint32_t first_tally, first_strip; /* of all long tensors */
    struct choice of[PARTS_MOST];
};

static_assert(sizeof(struct choices) + sizeof(struct packing) + 2 * sizeof(nodes<char>) <= 4096,
              "a kernel's arguments");

static int is_long(size_t count) {
    return count >= LONG;
}

static uint32_t strip_count(size_t count) {
    return (uint32_t)((count + STRIP - 1) / STRIP);
}

/* The next long or short tensors of the form, beginning where `all` ends; 0 when there are none. */
static int next_choices(const struct oct__packet_form *form, int wants_long, struct choices *all) {
    uint32_t end = 0;
    if (all->n > 0) {
        all->first_tally += all->n;
        all->first_strip += all->of[all->n - 1].strips_end;
        all->n = 0;
    }
    for (; all->next < form->n_parts && all->n < PARTS_MOST; all->next++) {
        const struct oct__part *from = &form->parts[all->next];
        if (is_long(from->count) == wants_long) {
            end += strip_count(from->count);
            const struct choice choice = {(uint32_t)from->offset,
                                          (uint32_t)from->count,
                                          (uint32_t)from->keep,
                                          (uint32_t)from->first,
                                          (uint32_t)from->scale,
                                          all->next,
                                          end};
            all->of[all->n++] = choice;
        }
    }
    return all->n > 0;
}

/* --- scratch --------------------------------------------------------------------------------- */

/* Where the search stands: keys above `bound` are taken, and the first `ties` of those equal to
 * it. */
struct bound {
    uint32_t bound, ties;
    int is_whole; /* ties are all that have the digits found so far: the others do not matter */
};

/* What the strips of a long tensor have found together. */
struct tally {
    uint32_t counts[PASSES][DIGITS]; /* of each digit, of keys that have those before it */
    struct bound bounds[PASSES];     /* after each of them */
};

/* A strip's list; what it has above the bound, and equal to it. */
struct strip {
    uint32_t listed; /* NOT_LISTED: there is no list, all of its keys are there */
    uint32_t above, equal;
};

#define NOT_LISTED UINT32_MAX

/* Of a node: [row - base of short tensors, lists of long ones][random word of each element of the
 * row] [kept values][peak of each tensor][tallies][strips]. */
extern "C" void oct__cuda_plan_selection(const struct oct__packet_form *form, int has_base,
                                         struct packing *p) {
    const size_t row_bytes = whole_lines(form->n_elements * sizeof(float));
    size_t n_long = 0, n_strips = 0;
    for (size_t i = 0; i < form->n_parts; i++) {
        n_long += is_long(form->parts[i].count);
        n_strips += is_long(form->parts[i].count) ? strip_count(form->parts[i].count) : 0;
    }
    p->words_at = has_base || n_long > 0 ? row_bytes : 0;
    p->kept_at = p->words_at + (form->select == OCT_SELECT_RANDOM ? row_bytes : 0);
    p->peaks_at = p->tallies_at = p->kept_at;
    if (form->coding == OCT_CODING_S8) {
        p->peaks_at = p->kept_at + whole_lines(form->n_kept * sizeof(uint32_t));
        p->tallies_at = p->peaks_at + whole_lines(form->n_parts * sizeof(struct peak));
    }
    p->strips_at = p->tallies_at + whole_lines(n_long * sizeof(struct tally));
    p->room_stride = p->strips_at + whole_lines(n_strips * sizeof(struct strip));
}

/* --- keys ------------------------------------------------------------------------------------ */

/* What a magnitude's bits are shifted by to become its key: the sign does not count. */
static __device__ inline int key_shift(const struct packing &p) {
    return p.select == OCT_SELECT_LARGEST ? 1 : 0;
}

/* Words first … end - 1 of the stream, into the same places of `words`. */
static __device__ inline void draw(struct oct__stream stream, uint32_t first, uint32_t end,
                                   uint32_t *words) {
    for (uint32_t b = first / 4 + threadIdx.x; b <= (end - 1) / 4; b += blockDim.x) {
        uint32_t block[4];
        oct__philox(&stream, OCT_PHILOX_ROUNDS, b, block);
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t e = 4 * b + j;
            if (e >= first && e < end) {
                words[e] = block[j];
            }
        }
    }
    __syncthreads();
}

/* Some of a tensor's keys, in order of place. */
struct items {
    const uint32_t *keys;
    int shift;             /* of each key */
    const uint32_t *index; /* its place in the tensor; NULL: first, first + 1, … */
    uint32_t first, n;

    __device__ uint32_t place(uint32_t i) const {
        return index ? index[i] : first + i;
    }
};

/* --- the search ------------------------------------------------------------------------------ */

struct pick_room {
    uint32_t counts[DIGITS], warps[32];
    struct bound found;
};

/* Sums over warps: before[0] of those before this one, before[1] of all. A whole block comes here;
 * every thread of a warp has its warp's value. */
static __device__ inline void scan_warps(uint32_t value, uint32_t *room, uint32_t before[2]) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    __syncthreads();
    if (lane == 0) {
        room[warp] = value;
    }
    __syncthreads();
    uint32_t sum = lane < (int)blockDim.x / 32 ? room[lane] : 0;
    for (int d = 1; d < 32; d *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffU, sum, (unsigned)d);
        sum += lane >= d ? other : 0;
    }
    before[1] = __shfl_sync(0xffffffffU, sum, 31);
    before[0] = __shfl_sync(0xffffffffU, sum, warp) - value;
}

/* Where the search stands after the digit at `shift`, the one at which `at.ties` keys are reached,
 * counted from the top. A thread looks at EACH digits in a row. */
template <int THREADS>
static __device__ struct bound find_digit(const uint32_t *counts, struct bound at, int shift,
                                          struct pick_room *room) {
    constexpr uint32_t EACH = DIGITS / THREADS;
    const uint32_t top = DIGITS - 1 - EACH * threadIdx.x;
    uint32_t own[EACH], sum = 0, before[2];
    for (uint32_t e = 0; e < EACH; e++) {
        own[e] = counts[top - e];
        sum += own[e];
    }
    const uint32_t all = sum;
    for (int d = 1; d < 32; d *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffU, sum, (unsigned)d);
        sum += (int)(threadIdx.x % 32) >= d ? other : 0;
    }
    scan_warps(__shfl_sync(0xffffffffU, sum, 31), room->warps, before);
    uint32_t above = before[0] + sum - all;
    if (above < at.ties && above + all >= at.ties) { /* one thread */
        uint32_t e = 0;
        for (; above + own[e] < at.ties; e++) {
            above += own[e];
        }
        room->found.bound = at.bound | (top - e) << shift;
        room->found.ties = at.ties - above;
        room->found.is_whole = room->found.ties == own[e];
    }
    __syncthreads();
    return room->found;
}

static __device__ inline void clear_counts(uint32_t *counts) {
    for (uint32_t i = threadIdx.x; i < DIGITS; i += blockDim.x) {
        counts[i] = 0;
    }
    __syncthreads();
}

/* Goes on after the first digit, whose counts are there. */
static __device__ struct bound find_bound(const struct items &of, uint32_t keep,
                                          struct pick_room *room) {
    struct bound at = {0, keep, 0};
    at = find_digit<PICK_BLOCK>(room->counts, at, 32 - DIGIT, room);
    for (int bits_left = 32 - DIGIT; bits_left > 0 && !at.is_whole;) {
        const int width = bits_left < DIGIT ? bits_left : DIGIT, shift = bits_left - width;
        const uint32_t digits = (1U << width) - 1, fixed = ~0U << bits_left;
        clear_counts(room->counts);
        for (uint32_t i = threadIdx.x; i < of.n; i += FOUR * PICK_BLOCK) {
            uint32_t keys[FOUR];
            load_apart<PICK_BLOCK>(of.keys, i, of.n, keys);
            for (uint32_t j = 0; j < FOUR; j++) {
                const uint32_t key = keys[j] << of.shift;
                if (i + j * PICK_BLOCK < of.n && (key & fixed) == at.bound) {
                    atomicAdd(&room->counts[key >> shift & digits], 1U);
                }
            }
        }
        __syncthreads();
        at = find_digit<PICK_BLOCK>(room->counts, at, shift, room);
        bits_left = shift;
    }
    return at;
}

/* --- taking ---------------------------------------------------------------------------------- */

/* Where what is taken goes: value `place` of those that the tensor keeps is element i. */
struct taker {
    enum oct__coding coding;
    uint32_t *index;
    void *values;  /* F32 and S8: as they are; S8's are coded later */
    float *memory; /* gets factor times the value; NULL: none, or not before it is coded */
    float factor;

    __device__ void take(uint32_t place, uint32_t i, uint32_t x) const {
        index[place] = i;
        if (coding == OCT_CODING_BF16) {
            const uint16_t half = round_bf16(x);
            ((uint16_t *)values)[place] = half;
            x = (uint32_t)half << 16;
        } else {
            ((uint32_t *)values)[place] = x;
        }
        if (memory) {
            memory[i] = memory[i] + factor * __uint_as_float(x);
        }
    }
};

static __device__ inline struct taker taker_of(const struct packing &p, const struct choice &choice,
                                               char *packet) {
    const int is_coded = p.coding == OCT_CODING_S8;
    const size_t bytes = p.coding == OCT_CODING_BF16 ? 2 : 4;
    char *values = is_coded ? room_of(p) + p.kept_at : packet + p.values_at;
    const struct taker to = {p.coding, (uint32_t *)(packet + p.index_at) + choice.first,
                             values + choice.first * bytes,
                             is_coded ? NULL : memory_of(p, choice.offset), p.factor};
    return to;
}

/* Takes everything above the bound and its first equals, in order of place, after n_above and
 * n_equal that came before; a warp has PICK_EACH times 32 neighbours. Memory may be what values
 * come from: an element is read and written by one thread alone. Returns the largest magnitude that
 * the thread took. */
static __device__ uint32_t take_all(const struct items &of, struct bound at,
                                    const struct source &from, const struct taker &to,
                                    uint32_t n_above, uint32_t n_equal, uint32_t *warps) {
    const uint32_t lane = threadIdx.x % 32, below = (1U << lane) - 1;
    uint32_t peak = 0;
    for (uint32_t chunk = 0; chunk < of.n; chunk += blockDim.x * PICK_EACH) {
        const uint32_t first = chunk + threadIdx.x / 32 * (32 * PICK_EACH) + lane;
        uint32_t above[PICK_EACH], equal[PICK_EACH], counts = 0, before[2];
        for (uint32_t j = 0; j < PICK_EACH; j++) {
            const uint32_t i = first + 32 * j;
            const uint32_t key = i < of.n ? of.keys[i] << of.shift : 0;
            above[j] = __ballot_sync(0xffffffffU, i < of.n && key > at.bound);
            equal[j] = __ballot_sync(0xffffffffU, i < of.n && key == at.bound);
            counts += (uint32_t)__popc(above[j]) + ((uint32_t)__popc(equal[j]) << 16);
        }
        scan_warps(counts, warps, before); /* at most 8192 of each: 16 bits are enough */
        uint32_t is_above = n_above + (before[0] & 0xffffU), is_equal = n_equal + (before[0] >> 16);
        for (uint32_t j = 0; j < PICK_EACH; j++) {
            const uint32_t higher = is_above + (uint32_t)__popc(above[j] & below);
            const uint32_t equals = is_equal + (uint32_t)__popc(equal[j] & below);
            const int is_tie = equal[j] >> lane & 1 && equals < at.ties;
            if (above[j] >> lane & 1 || is_tie) {
                const uint32_t i = of.place(first + 32 * j), bits = __float_as_uint(from.at(i));
                to.take(higher + (equals < at.ties ? equals : at.ties), i, bits);
                peak = max(peak, bits & 0x7fffffffU);
            }
            is_above += (uint32_t)__popc(above[j]);
            is_equal += (uint32_t)__popc(equal[j]);
        }
        n_above += before[1] & 0xffffU;
        n_equal += before[1] >> 16;
    }
    return peak;
}

static __device__ inline struct peak *peak_of(const struct packing &p, const struct choice &of) {
    return (struct peak *)(room_of(p) + p.peaks_at) + of.number;
}

/* --- short tensors --------------------------------------------------------------------------- */

/* A block a tensor. Where there is a base, the difference is made once and kept in scratch, which
 * other passes read; it is looked at for the first digit on its way there. */
static __global__ void __launch_bounds__(PICK_BLOCK, 2)
    pack_picked(__grid_constant__ const struct choices all,
                __grid_constant__ const struct packing p, nodes<const float> rows,
                nodes<char> packets) {
    __shared__ struct pick_room room;
    const struct choice choice = all.of[blockIdx.x];
    const struct source row = source_of(p, rows, choice.offset);
    char *packet = packets.of((int)blockIdx.y);
    float *apart = row.base ? (float *)room_of(p) + choice.offset : NULL;
    const struct source from = {apart ? apart : row.x, NULL};
    const int is_random = p.select == OCT_SELECT_RANDOM;
    struct items of = {(const uint32_t *)from.x, key_shift(p), NULL, 0, choice.count};
    clear_counts(room.counts);
    if (is_random) {
        uint32_t *words = (uint32_t *)(room_of(p) + p.words_at);
        draw(p.words.of((int)blockIdx.y), choice.offset, choice.offset + choice.count, words);
        of.keys = words + choice.offset;
    }
    uint32_t largest = 0; /* of all elements: those that are not kept count, too */
    for (uint32_t i = threadIdx.x; i < choice.count; i += FOUR * PICK_BLOCK) {
        float v[FOUR];
        uint32_t keys[FOUR];
        row.load<PICK_BLOCK>(i, choice.count, v);
        if (is_random) {
            load_apart<PICK_BLOCK>(of.keys, i, choice.count, keys);
        }
        for (uint32_t j = 0; j < FOUR && i + j * PICK_BLOCK < choice.count; j++) {
            const uint32_t bits = __float_as_uint(v[j]), key = is_random ? keys[j] : bits << 1;
            largest = max(largest, bits & 0x7fffffffU);
            atomicAdd(&room.counts[key >> (32 - DIGIT)], 1U);
            if (apart) {
                apart[i + j * PICK_BLOCK] = v[j];
            }
        }
    }
    look_at(p, choice.number, largest);
    __syncthreads();
    const struct bound bound = find_bound(of, choice.keep, &room);
    const struct taker to = taker_of(p, choice, packet);
    const uint32_t taken = take_all(of, bound, from, to, 0, 0, room.warps);
    const uint32_t peak = block_max(taken, room.warps);
    if (p.coding == OCT_CODING_S8 && threadIdx.x == 0) {
        const struct peak found = {peak, choice.scale};
        *peak_of(p, choice) = found;
    }
    end_with_zeros(p, packet);
}

/* --- long tensors ---------------------------------------------------------------------------- */

/* A block's strip: elements begin … end - 1 of its tensor. */
struct strip_place {
    struct choice choice;
    uint32_t begin, end;
    uint32_t first, number; /* the tensor's first strip, and this one, of all that the form has */
    uint32_t tally;
    int is_first;
};

/* One thread looks for it, as in packet.cu. */
static __device__ inline struct strip_place strip_of(const struct choices &all) {
    __shared__ struct strip_place found;
    if (threadIdx.x == 0) {
        uint32_t low = 0, high = all.n - 1; /* the first tensor that ends beyond this block */
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (all.of[middle].strips_end > blockIdx.x) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        const uint32_t begins = low > 0 ? all.of[low - 1].strips_end : 0;
        const uint32_t count = all.of[low].count, begin = (blockIdx.x - begins) * STRIP;
        found.choice = all.of[low];
        found.begin = begin;
        found.end = count - begin < STRIP ? count : begin + STRIP;
        found.first = all.first_strip + begins;
        found.number = all.first_strip + blockIdx.x;
        found.tally = all.first_tally + low;
        found.is_first = blockIdx.x == begins;
    }
    __syncthreads();
    return found;
}

static __device__ inline struct tally *tally_of(const struct packing &p, uint32_t number) {
    return (struct tally *)(room_of(p) + p.tallies_at) + number;
}

static __device__ inline struct strip *strips_of(const struct packing &p) {
    return (struct strip *)(room_of(p) + p.strips_at);
}

/* The strip's place in scratch: places and then keys of those on its list, or all of its keys. */
static __device__ inline uint32_t *list_of(const struct packing &p,
                                           const struct strip_place &strip) {
    return (uint32_t *)room_of(p) + strip.choice.offset + strip.begin;
}

static __device__ inline uint32_t list_most(const struct strip_place &strip) {
    return (strip.end - strip.begin) / 2;
}

static __device__ inline struct items items_of(const struct packing &p,
                                               const struct strip_place &strip) {
    const uint32_t listed = strips_of(p)[strip.number].listed, *list = list_of(p, strip);
    const struct items all = {list, 0, NULL, strip.begin, strip.end - strip.begin};
    const struct items some = {list + list_most(strip), 0, list, 0, listed};
    return listed == NOT_LISTED ? all : some;
}

/* What a block has counted, into the tally. */
static __device__ inline void tell_counts(const uint32_t *counts, uint32_t *tally) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < DIGITS; i += BLOCK) {
        if (counts[i] > 0) {
            atomicAdd(&tally[i], counts[i]);
        }
    }
}

/* The bound after a pass, from its counts; a tensor's first strip leaves it for the next launch. */
static __device__ inline struct bound bound_after(int pass, struct tally *tally,
                                                  const struct strip_place &strip,
                                                  struct pick_room *room) {
    struct bound at = {0, strip.choice.keep, 0};
    if (pass > 0) {
        at = tally->bounds[pass - 1];
    }
    at = find_digit<BLOCK>(tally->counts[pass], at, pass == 0 ? 21 : pass == 1 ? 10 : 0, room);
    if (strip.is_first && threadIdx.x == 0) {
        tally->bounds[pass] = at;
    }
    return at;
}

/* A block a tensor. */
static __global__ void __launch_bounds__(BLOCK)
    long_clear(__grid_constant__ const struct choices all,
               __grid_constant__ const struct packing p) {
    const struct choice &choice = all.of[blockIdx.x];
    struct tally *tally = tally_of(p, all.first_tally + blockIdx.x);
    for (uint32_t i = threadIdx.x; i < PASSES * DIGITS; i += BLOCK) {
        (&tally->counts[0][0])[i] = 0;
    }
    if (p.coding == OCT_CODING_S8 && threadIdx.x == 0) {
        const struct peak none = {0, choice.scale};
        *peak_of(p, choice) = none;
    }
}

/* A long tensor's keys, and what they come from. */
struct long_keys {
    struct source from;
    const uint32_t *words; /* of the tensor; NULL: keys are magnitudes */
    int wide;

    /* Those of elements i … i + 3. */
    __device__ void load(uint32_t i, uint32_t end, uint32_t keys[FOUR]) const {
        const struct four v =
            words ? load_four((const float *)words, i, end, wide) : from.four(i, end, wide);
        for (int j = 0; j < FOUR; j++) {
            keys[j] = words ? __float_as_uint(v.v[j]) : __float_as_uint(v.v[j]) << 1;
        }
    }
};

static __device__ inline struct long_keys long_keys_of(const struct packing &p,
                                                       nodes<const float> rows, uint32_t offset) {
    const uint32_t *words = (const uint32_t *)(room_of(p) + p.words_at) + offset;
    const struct long_keys keys = {source_of(p, rows, offset),
                                   p.select == OCT_SELECT_RANDOM ? words : NULL,
                                   p.is_wide && offset % FOUR == 0};
    return keys;
}

enum { PAIR = 2 }; /* loads of four keys that a thread has under way */

static __global__ void __launch_bounds__(BLOCK)
    long_first(__grid_constant__ const struct choices all, __grid_constant__ const struct packing p,
               nodes<const float> rows) {
    __shared__ uint32_t counts[DIGITS];
    const struct strip_place strip = strip_of(all);
    const uint32_t offset = strip.choice.offset, end = strip.end;
    const struct long_keys of = long_keys_of(p, rows, offset);
    uint32_t largest = 0; /* of all elements: those that are not kept count, too */
    clear_counts(counts);
    if (of.words) {
        draw(p.words.of((int)blockIdx.y), offset + strip.begin, offset + end,
             (uint32_t *)(room_of(p) + p.words_at));
    }
    for (uint32_t i = strip.begin + FOUR * threadIdx.x; i < end; i += PAIR * FOUR * BLOCK) {
        struct four v[PAIR];
        for (uint32_t h = 0; h < PAIR; h++) {
            v[h] = of.from.four(i + h * FOUR * BLOCK, end, of.wide);
        }
        for (uint32_t h = 0; h < PAIR; h++) {
            const uint32_t first = i + h * FOUR * BLOCK;
            uint32_t keys[FOUR];
            if (of.words) {
                of.load(first, end, keys);
            }
            for (uint32_t j = 0; j < FOUR; j++) {
                const uint32_t bits = __float_as_uint(v[h].v[j]);
                const uint32_t key = of.words ? keys[j] : bits << 1;
                largest = max(largest, bits & 0x7fffffffU); /* beyond the end: 0 */
                if (first + j < end) {
                    atomicAdd(&counts[key >> (32 - DIGIT)], 1U);
                }
            }
        }
    }
    look_at(p, strip.choice.number, largest);
    tell_counts(counts, tally_of(p, strip.tally)->counts[0]);
}

/* A warp has PAIR times 128 neighbours, a lane four of each 128. */
static __global__ void __launch_bounds__(BLOCK, 5)
    long_second(__grid_constant__ const struct choices all,
                __grid_constant__ const struct packing p, nodes<const float> rows) {
    enum { WARP = 32 * FOUR, CHUNK = PAIR * FOUR * BLOCK };
    __shared__ struct pick_room room;
    const struct strip_place strip = strip_of(all);
    const struct long_keys of = long_keys_of(p, rows, strip.choice.offset);
    struct tally *tally = tally_of(p, strip.tally);
    const struct bound at = bound_after(0, tally, strip, &room);
    const uint32_t lane = threadIdx.x % 32, most = list_most(strip), end = strip.end;
    uint32_t *list = list_of(p, strip), n_listed = 0;
    clear_counts(room.counts);
    for (uint32_t chunk = strip.begin; chunk < end; chunk += CHUNK) {
        const uint32_t first = chunk + threadIdx.x / 32 * (PAIR * WARP) + FOUR * lane;
        uint32_t keys[PAIR][FOUR], wanted = 0, before[2]; /* wanted: a bit each */
        for (uint32_t h = 0; h < PAIR; h++) {
            of.load(first + h * WARP, end, keys[h]);
        }
        for (uint32_t h = 0; h < PAIR; h++) {
            for (uint32_t j = 0; j < FOUR; j++) {
                const uint32_t is_wanted = keys[h][j] >= at.bound && first + h * WARP + j < end;
                wanted |= is_wanted << (h * FOUR + j);
            }
        }
        /* at most 128 of either half: 16 bits are enough */
        const uint32_t own = (uint32_t)(__popc(wanted & 15U) | __popc(wanted >> 4) << 16);
        uint32_t sum = own;
        for (int d = 1; d < 32; d *= 2) {
            const uint32_t other = __shfl_up_sync(0xffffffffU, sum, (unsigned)d);
            sum += (int)lane >= d ? other : 0;
        }
        const uint32_t both = __shfl_sync(0xffffffffU, sum, 31);
        scan_warps((both & 0xffffU) + (both >> 16), room.warps, before);
        uint32_t place = n_listed + before[0] + ((sum - own) & 0xffffU);
        const uint32_t later = n_listed + before[0] + (both & 0xffffU) + ((sum - own) >> 16);
        for (uint32_t h = 0; h < PAIR; h++, place = later) {
            for (uint32_t j = 0; j < FOUR; j++) {
                const uint32_t key = keys[h][j];
                if (wanted >> (h * FOUR + j) & 1U) {
                    if (place < most) {
                        list[place] = first + h * WARP + j;
                        list[most + place] = key;
                    }
                    if (key >> 21 == at.bound >> 21) {
                        atomicAdd(&room.counts[key >> 10 & (DIGITS - 1)], 1U);
                    }
                    place++;
                }
            }
        }
        n_listed += before[1];
    }
    tell_counts(room.counts, tally->counts[1]); /* all have written their part of the list */
    const int fits = n_listed <= most;
    for (uint32_t i = strip.begin + threadIdx.x; !fits && i < strip.end; i += BLOCK) {
        list[i - strip.begin] = of.words ? of.words[i] : __float_as_uint(of.from.at(i)) << 1;
    }
    if (threadIdx.x == 0) {
        strips_of(p)[strip.number].listed = fits ? n_listed : NOT_LISTED;
    }
}

static __global__ void __launch_bounds__(BLOCK)
    long_third(__grid_constant__ const struct choices all,
               __grid_constant__ const struct packing p) {
    __shared__ struct pick_room room;
    const struct strip_place strip = strip_of(all);
    const struct items of = items_of(p, strip);
    struct tally *tally = tally_of(p, strip.tally);
    const struct bound at = bound_after(1, tally, strip, &room);
    clear_counts(room.counts);
    for (uint32_t i = threadIdx.x; i < of.n; i += BLOCK) {
        const uint32_t key = of.keys[i];
        if (key >> 10 == at.bound >> 10) {
            atomicAdd(&room.counts[key & 0x3ffU], 1U);
        }
    }
    tell_counts(room.counts, tally->counts[2]);
}

static __global__ void __launch_bounds__(BLOCK)
    long_share(__grid_constant__ const struct choices all,
               __grid_constant__ const struct packing p) {
    __shared__ struct pick_room room;
    const struct strip_place strip = strip_of(all);
    const struct items of = items_of(p, strip);
    const struct bound at = bound_after(2, tally_of(p, strip.tally), strip, &room);
    uint32_t above = 0, equal = 0;
    for (uint32_t i = threadIdx.x; i < of.n; i += BLOCK) {
        above += of.keys[i] > at.bound;
        equal += of.keys[i] == at.bound;
    }
    above = block_sum(above, room.warps);
    equal = block_sum(equal, room.warps);
    if (threadIdx.x == 0) {
        strips_of(p)[strip.number].above = above;
        strips_of(p)[strip.number].equal = equal;
    }
}

static __global__ void __launch_bounds__(BLOCK)
    long_take(__grid_constant__ const struct choices all, __grid_constant__ const struct packing p,
              nodes<const float> rows, nodes<char> packets) {
    __shared__ uint32_t room[32];
    const struct strip_place strip = strip_of(all);
    const struct strip *strips = strips_of(p);
    char *packet = packets.of((int)blockIdx.y);
    uint32_t above = 0, equal = 0;
    for (uint32_t i = strip.first + threadIdx.x; i < strip.number; i += BLOCK) {
        above += strips[i].above;
        equal += strips[i].equal;
    }
    above = block_sum(above, room);
    equal = block_sum(equal, room);
    const uint32_t taken =
        take_all(items_of(p, strip), tally_of(p, strip.tally)->bounds[PASSES - 1],
                 source_of(p, rows, strip.choice.offset), taker_of(p, strip.choice, packet), above,
                 equal, room);
    const uint32_t peak = block_max(taken, room);
    if (p.coding == OCT_CODING_S8 && threadIdx.x == 0) {
        atomicMax(&peak_of(p, strip.choice)->bits, peak);
    }
    end_with_zeros(p, packet);
}

/* --- launches -------------------------------------------------------------------------------- */

static void select_short(const struct oct__lane *lane, const struct oct__args *args,
                         const struct packing *p, const struct choices *all) {
    const dim3 grid(all->n, (unsigned)lane->form.n_nodes);
    launch_kernel(pack_picked, grid, PICK_BLOCK, 0, stream_of(lane), *all, *p,
                  nodes_of<const float>(&args->t[0]), nodes_of<char>(&args->t[2]));
}

static void select_long(const struct oct__lane *lane, const struct oct__args *args,
                        const struct packing *p, const struct choices *all) {
    const unsigned n_nodes = (unsigned)lane->form.n_nodes;
    const dim3 tensors(all->n, n_nodes), strips(all->of[all->n - 1].strips_end, n_nodes);
    const nodes<const float> rows = nodes_of<const float>(&args->t[0]);
    const cudaStream_t stream = stream_of(lane);
    launch_kernel(long_clear, tensors, BLOCK, 0, stream, *all, *p);
    launch_kernel(long_first, strips, BLOCK, 0, stream, *all, *p, rows);
    launch_kernel(long_second, strips, BLOCK, 0, stream, *all, *p, rows);
    launch_kernel(long_third, strips, BLOCK, 0, stream, *all, *p);
    launch_kernel(long_share, strips, BLOCK, 0, stream, *all, *p);
    launch_kernel(long_take, strips, BLOCK, 0, stream, *all, *p, rows, nodes_of<char>(&args->t[2]));
}

extern "C" void oct__cuda_select(const struct oct__lane *lane, const struct oct__args *args,
                                 const struct packing *p) {
    struct choices longs = {}, shorts = {};
    while (next_choices(args->attr.packet.form, 1, &longs)) {
        select_long(lane, args, p, &longs);
    }
    while (next_choices(args->attr.packet.form, 0, &shorts)) {
        select_short(lane, args, p, &shorts);
    }
}
