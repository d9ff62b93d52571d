/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - the kernel checker's parts. */
#ifndef OCT_TESTS_KERNELS_CHECK_H
#define OCT_TESTS_KERNELS_CHECK_H

#include <stdint.h>

/* variants.c: every variant against ref on kernel `index`, bit for bit. Returns how many variants
 * differed, each reported on stderr; adds the comparisons made to *n_calls. */
int check_variants(int index, uint64_t seed, uint64_t *n_calls);

/* Memory and fault handler of check_variants; 0 when the system refuses. */
int check_variants_open(void);
void check_variants_close(void);

/* oracle.c: ref against formulas in double, of all kernels or the one named. Returns how many
 * differed by more than their tolerance. */
int check_oracle(const char *only, uint64_t seed);

/* oracle_bytes.c: the same for one kernel between floats and bytes, to the bit. */
int check_bytes(const char *name, uint64_t seed);

/* oracle_fused.c: the same for one that takes what floats are made of. */
int check_fused(const char *name, uint64_t seed);

/* oracle_range.c: the same for one kernel of the range norms. */
int check_range(const char *name, uint64_t seed);

/* oracle_outer.c: the same for one kernel of the weight gradient in bf16. */
int check_outer(const char *name, uint64_t seed);

/* oracle_norm_bytes.c: the same for one kernel of Range EvoNorm on bytes, to the bit; and its variants
 * where they take short cuts. */
int check_norm_bytes(const char *name, uint64_t seed);

/* oracle_rows.c: the same for one kernel on rows of parameters. */
int check_rows(const char *name, uint64_t seed);

#endif
