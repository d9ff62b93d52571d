/* SPDX-License-Identifier: Apache-2.0 */
/* anywhere.h - OCT_ANYWHERE marks inline functions that a GPU runs, too.
 *
 * Where bits must agree between a CPU and a GPU there is one text of the arithmetic, compiled for
 * both; without CUDA's compiler the mark is nothing but `static inline`.
 */
#ifndef OCT_BASE_ANYWHERE_H
#define OCT_BASE_ANYWHERE_H

#ifdef __CUDACC__
#define OCT_ANYWHERE static inline __host__ __device__
#else
#define OCT_ANYWHERE static inline
#endif

#endif
