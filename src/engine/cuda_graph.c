/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_graph.c - a step's launches as one: CUDA graphs.
 *
 * A step has hundreds of launches, a few microseconds each, and a CPU that is hardly faster at launching
 * them. They are the same in every step, but for what struct oct__cuda_now holds; so a piece of a program
 * is run as it is the first time it is seen, recorded the second time, and replayed from then on. Pieces
 * are told apart by what the caller says of them; a piece not seen for long makes room for others.
 */
#include "engine/cuda.h"

#ifdef OCT_HAVE_CUDA

#include <cuda_runtime_api.h>
#include <string.h>

#include "base/alloc.h"

enum { GRAPHS = 32, KEY_MOST = 512 };

struct oct__cuda_graph {
    char key[KEY_MOST];
    size_t bytes;          /* of the key; 0: the place is free */
    uint64_t used;         /* when it last was */
    cudaGraphExec_t ready; /* NULL: seen, not recorded */
    int is_recording;
};

static struct oct__cuda_engine *cuda_of(const struct oct__lane *lane) {
    return (struct oct__cuda_engine *)lane->engine;
}

static void drop(struct oct__cuda_graph *graph) {
    if (graph->ready) {
        (void)cudaGraphExecDestroy(graph->ready);
    }
    memset(graph, 0, sizeof *graph);
}

/* The piece's place: its own, or the one that was not used for longest. */
static struct oct__cuda_graph *place_of(struct oct__cuda_graph *graphs, const void *key,
                                        size_t bytes) {
    struct oct__cuda_graph *oldest = graphs;
    for (int i = 0; i < GRAPHS; i++) {
        if (graphs[i].bytes == bytes && memcmp(graphs[i].key, key, bytes) == 0) {
            return &graphs[i];
        }
        oldest = graphs[i].used < oldest->used ? &graphs[i] : oldest;
    }
    return oldest;
}

static oct_status begin(const struct oct__lane *lane, const void *key, size_t bytes,
                        int *is_replayed) {
    struct oct__cuda_engine *cuda = cuda_of(lane);
    *is_replayed = 0;
    if (bytes > KEY_MOST) {
        return OCT_OK;
    }
    oct__cuda_tell_now(lane);
    struct oct__cuda_graph *graph = place_of(cuda->graphs, key, bytes);
    const int is_new = graph->bytes != bytes || memcmp(graph->key, key, bytes) != 0;
    cudaError_t error = cudaSuccess;
    if (is_new) {
        drop(graph);
        memcpy(graph->key, key, bytes);
        graph->bytes = bytes;
    } else if (graph->ready) {
        error = cudaGraphLaunch(graph->ready, cuda->stream);
        *is_replayed = 1;
    } else {
        error = cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal);
        graph->is_recording = error == cudaSuccess;
    }
    graph->used = ++cuda->n_begun;
    return error == cudaSuccess ? OCT_OK : oct__cuda_failed((int)error, "replaying a step");
}

/* What was recorded has not run yet. */
static oct_status end(const struct oct__lane *lane, oct_status status) {
    struct oct__cuda_engine *cuda = cuda_of(lane);
    struct oct__cuda_graph *graph = NULL;
    for (int i = 0; i < GRAPHS; i++) {
        graph = cuda->graphs[i].is_recording ? &cuda->graphs[i] : graph;
    }
    if (!graph) {
        return status;
    }
    graph->is_recording = 0;
    cudaGraph_t recorded = NULL;
    cudaError_t error = cudaStreamEndCapture(cuda->stream, &recorded);
    if (error == cudaSuccess && status == OCT_OK) {
        error = cudaGraphInstantiate(&graph->ready, recorded, 0);
    }
    if (recorded) {
        (void)cudaGraphDestroy(recorded);
    }
    if (status != OCT_OK) {
        (void)cudaGetLastError();
        return status;
    }
    if (error == cudaSuccess) {
        error = cudaGraphLaunch(graph->ready, cuda->stream);
    }
    return error == cudaSuccess ? OCT_OK : oct__cuda_failed((int)error, "recording a step");
}

oct_status oct__cuda_graph_open(struct oct__cuda_engine *cuda) {
    void *memory;
    OCT_TRY(oct__alloc_array(GRAPHS, sizeof *cuda->graphs, "engine", &memory));
    cuda->graphs = memory;
    cuda->engine.begin = begin;
    cuda->engine.end = end;
    return OCT_OK;
}

void oct__cuda_graph_close(struct oct__cuda_engine *cuda) {
    for (int i = 0; cuda->graphs && i < GRAPHS; i++) {
        drop(&cuda->graphs[i]);
    }
    oct__free(cuda->graphs);
}

#endif
