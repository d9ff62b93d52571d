/* SPDX-License-Identifier: Apache-2.0 */
/* range_norm_grad_u8_avx512bf16.c - the gradient of Range EvoNorm on bytes, for bf16, once more: with
 * the instruction that rounds two vectors to bf16, instead of seven. */
#include "kernels/x86/range_norm_grad_u8.c" /* NOLINT(bugprone-suspicious-include) */
