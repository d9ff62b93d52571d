/* SPDX-License-Identifier: Apache-2.0 */
/* test_program.c - src/nn/program.c: where tensors lie, what calls there are, NaN hunting.
 *
 * The plan is checked by playing it: every 64 bytes of the workspace remember which tensor wrote
 * them last, and a call that reads a tensor must find it there whole. That needs no trust in the
 * planner's own bookkeeping of first and last uses, which is recomputed too.
 */
#include <math.h>
#include <stdlib.h>

#include "engine/cpu.h"
#include "models/model.h"
#include "nn/layer.h"
#include "support/check.h"
#include "support/narrow.h"
#include "support/rig.h"

enum { CELL = 64 };

static struct oct__engine *engine;

static int open_engine(void **state) {
    (void)state;
    return oct__engine_open("portable", 1, &engine) == OCT_OK ? 0 : -1;
}

static int close_engine(void **state) {
    (void)state;
    oct__engine_close(engine);
    return 0;
}

static struct oct__program *plan_anchored(const struct oct_graph *graph, enum oct__mode mode,
                                          int batch, int keeps) {
    struct oct__program *program = NULL;
    const struct oct__program_config config = {
        .mode = mode,
        .batch = batch,
        .form = {1, 1, 16},
        .dataset_images = 10,
        .dataset_height = graph->height,
        .dataset_width = graph->width,
        .beta = 0.9F,
        .keeps = keeps,
    };
    EXPECT_OK(oct__program_create(engine, graph, &config, &program));
    return program;
}

static struct oct__program *plan(const struct oct_graph *graph, enum oct__mode mode, int batch) {
    return plan_anchored(graph, mode, batch, 0);
}

static int is_input(enum oct__op op, int operand) {
    const char letter = oct__op_info[op].operands[operand];
    return letter == 'i' || letter == 'I' || letter == 'b' || letter == 'B';
}

static int is_output(enum oct__op op, int operand) {
    const char letter = oct__op_info[op].operands[operand];
    return letter == 'o' || letter == 'O' || letter == 'b' || letter == 'B';
}

/* --- memory places --------------------------------------------------------------------------- */

struct board {
    int *owner; /* [cells] tensor that wrote the cell last; -1: nobody */
    size_t n_cells;
};

static void own(struct board *board, const struct oct__program *program, int tensor) {
    const struct oct__program_tensor *t = &program->tensors[tensor];
    size_t last = t->offset + oct__tensor_bytes(&t->shape);
    assert_int_equal(t->offset % CELL, 0);
    assert_true(last <= program->work_bytes);
    for (size_t at = t->offset; at < last; at += CELL) {
        board->owner[at / CELL] = tensor;
    }
}

static void expect_owned(const struct board *board, const struct oct__program *program, int tensor,
                         size_t call) {
    const struct oct__program_tensor *t = &program->tensors[tensor];
    for (size_t at = t->offset; at < t->offset + oct__tensor_bytes(&t->shape); at += CELL) {
        if (board->owner[at / CELL] != tensor) {
            fail_msg("call %zu (%s) reads tensor %d at byte %zu, where tensor %d lies", call,
                     call < program->n_calls ? oct__op_info[program->calls[call].op].name : "end",
                     tensor, at, board->owner[at / CELL]);
        }
    }
}

/* Tensors that come from or are read outside the calls. */
static const int *pinned_of(const struct oct__program *program, size_t *n) {
    static int tensors[6];
    const int all[] = {program->picks, program->labels, program->loss,
                       program->hit,   program->flag,   program->logits};
    memcpy(tensors, all, sizeof all);
    *n = program->mode == OCT_MODE_EVAL ? 6 : 5;
    return tensors;
}

/* Calls from `from` on, over what earlier ones have left on the board. */
static void play_from(const struct oct__program *program, struct board *board, size_t from) {
    for (size_t i = from; i < program->n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        for (int pass = 0; pass < 2; pass++) {
            for (int j = 0; oct__op_info[call->op].operands[j]; j++) {
                int tensor = call->tensors[j];
                if (tensor < 0 || program->tensors[tensor].home != OCT_HOME_WORK) {
                    continue;
                }
                if (pass == 0 && is_input(call->op, j)) {
                    expect_owned(board, program, tensor, i);
                } else if (pass == 1 && is_output(call->op, j)) {
                    own(board, program, tensor);
                }
            }
        }
        /* What a call has written it has written beside each other. */
        for (int j = 0; oct__op_info[call->op].operands[j]; j++) {
            int tensor = call->tensors[j];
            if (tensor >= 0 && program->tensors[tensor].home == OCT_HOME_WORK) {
                expect_owned(board, program, tensor, i);
            }
        }
    }
}

/* A second batch finds what the first one needed. */
static void play(const struct oct__program *program) {
    struct board board = {NULL, program->work_bytes / CELL + 1};
    board.owner = malloc(board.n_cells * sizeof *board.owner);
    assert_non_null(board.owner);
    memset(board.owner, -1, board.n_cells * sizeof *board.owner);
    own(&board, program, program->picks);
    own(&board, program, program->flag);
    play_from(program, &board, 0);
    play_from(program, &board, program->n_once);
    size_t n;
    const int *pinned = pinned_of(program, &n);
    for (size_t i = 0; i < n; i++) {
        assert_true(program->tensors[pinned[i]].is_pinned);
        expect_owned(&board, program, pinned[i], program->n_calls);
    }
    free(board.owner);
}

/* Liveness from the calls alone; the most that is alive at once bounds the workspace from below. */
static void measure(const struct oct__program *program, size_t *sum, size_t *alive_at_once) {
    size_t *alive = calloc(program->n_calls, sizeof *alive);
    assert_non_null(alive);
    *sum = 0;
    for (size_t t = 0; t < program->n_tensors; t++) {
        const struct oct__program_tensor *tensor = &program->tensors[t];
        size_t first = program->n_calls, last = 0,
               bytes = (oct__tensor_bytes(&tensor->shape) + CELL - 1) / CELL * CELL;
        if (tensor->home != OCT_HOME_WORK) {
            continue;
        }
        for (size_t i = 0; i < program->n_calls; i++) {
            for (int j = 0; j < OCT_ARGS_MOST; j++) {
                if (program->calls[i].tensors[j] == (int)t) {
                    first = i < first ? i : first;
                    last = i;
                }
            }
        }
        if (first < program->n_calls) {
            assert_int_equal(tensor->first, (int)first);
            assert_int_equal(tensor->last, (int)last);
        } else {
            assert_true(tensor->is_pinned); /* nobody makes a tensor for nothing */
        }
        if (tensor->is_pinned) {
            first = 0;
            last = program->n_calls - 1;
        }
        *sum += bytes;
        for (size_t i = first; i <= last; i++) {
            alive[i] += bytes;
        }
    }
    *alive_at_once = 0;
    for (size_t i = 0; i < program->n_calls; i++) {
        *alive_at_once = alive[i] > *alive_at_once ? alive[i] : *alive_at_once;
    }
    free(alive);
}

/* Nothing shares a byte with a pinned tensor, ever. */
static void expect_pinned_apart(const struct oct__program *program) {
    for (size_t i = 0; i < program->n_tensors; i++) {
        const struct oct__program_tensor *a = &program->tensors[i];
        if (!a->is_pinned) {
            continue;
        }
        for (size_t j = 0; j < program->n_tensors; j++) {
            const struct oct__program_tensor *b = &program->tensors[j];
            if (i == j || b->home != OCT_HOME_WORK || (b->first < 0 && !b->is_pinned)) {
                continue;
            }
            size_t a_end = a->offset + oct__tensor_bytes(&a->shape);
            size_t b_end = b->offset + oct__tensor_bytes(&b->shape);
            assert_true(a_end <= b->offset || b_end <= a->offset);
        }
    }
}

/* What is kept is made of parameters alone, by the calls that are run once, and has places of its
 * own. */
static void check_kept(const struct oct__program *program) {
    size_t bytes = 0;
    for (size_t i = 0; i < program->n_tensors; i++) {
        const struct oct__program_tensor *tensor = &program->tensors[i];
        if (tensor->home == OCT_HOME_KEPT) {
            assert_true(tensor->first < (int)program->n_once);
            assert_true(tensor->last >= (int)program->n_once);
            assert_int_equal(tensor->offset, bytes);
            bytes += (oct__tensor_bytes(&tensor->shape) + CELL - 1) / CELL * CELL;
        }
    }
    size_t n_keeping = 0, n_anchored = 0;
    for (size_t i = 0; i < program->n_calls; i++) {
        const struct oct__program_call *call = &program->calls[i];
        for (int j = 0; i < program->n_once && oct__op_info[call->op].operands[j]; j++) {
            if (call->tensors[j] >= 0 && is_input(call->op, j)) {
                const struct oct__program_tensor *tensor = &program->tensors[call->tensors[j]];
                assert_true(tensor->home == OCT_HOME_PARAM ||
                            (tensor->first >= 0 && tensor->first < (int)i));
            }
        }
        n_keeping += call->keeps_for >= 0;
        assert_true(call->keeps_for < 0 || i < program->n_once);
        if (i >= program->n_once && call->plan.kept_bytes > 0) {
            assert_int_equal(call->kept_at, bytes);
            assert_int_equal(call->tensors[call->plan.kept_operand], -1);
            bytes += (call->plan.kept_bytes + CELL - 1) / CELL * CELL;
            n_anchored++;
        }
    }
    print_message("    %zu calls run once, %zu of them for products; %zu bytes kept, %zu read\n",
                  program->n_once, n_keeping, bytes, oct__program_weight_bytes(program));
    assert_int_equal(n_keeping, n_anchored);
    assert_int_equal(program->kept_bytes, bytes);
    assert_true(oct__program_weight_bytes(program) >= bytes);
    assert_int_equal(program->n_forward, program->n_calls);
}

static void check_plan(const char *name, const struct oct_graph *graph, int batch, double most) {
    static const char *const names[] = {"training", "evaluation", "evaluation that keeps"};
    for (int form = 0; form < 3; form++) {
        const enum oct__mode mode = form == 0 ? OCT_MODE_TRAIN : OCT_MODE_EVAL;
        struct oct__program *program = plan_anchored(graph, mode, batch, form == 2);
        size_t sum, alive;
        measure(program, &sum, &alive);
        print_message("%s, %s: %zu calls, workspace %zu bytes; tensors %zu in all, %zu at once\n",
                      name, names[form], program->n_calls, program->work_bytes, sum, alive);
        assert_true(program->work_bytes >= alive);
        assert_true((double)program->work_bytes <= most * (double)alive);
        assert_true(program->work_bytes < sum);
        expect_pinned_apart(program);
        play(program);
        if (form == 2) {
            check_kept(program);
        } else {
            assert_int_equal(program->n_once, 0);
            assert_int_equal(program->kept_bytes, 0);
        }
        struct oct__lane_need need = oct__program_need(program);
        assert_int_equal(need.work_stride, program->work_bytes);
        assert_int_equal(need.grad_stride,
                         mode == OCT_MODE_TRAIN ? graph->params.n_elements * sizeof(float) : 0);
        assert_int_equal(need.total_bytes, need.work_stride + need.grad_stride +
                                               need.shared_scratch + need.thread_scratch);
        oct__program_destroy(program);
    }
}

/* fp32, and int8 with and without the values that a clip mask keeps. */
static const char *const recipes[] = {NULL, "octet", "paper", "octet:range=mean,gradients=sample",
                                      "octet:weights=channel"};

static void quantize(struct oct_graph *g, const char *text) {
    struct oct__recipe recipe;
    if (text) {
        EXPECT_OK(oct__recipe_read(text, &recipe));
        oct__graph_quantize(g, &recipe);
    }
}

/* The same with an engine whose products have a layout of their own for weights, if there is one. */
static void packed_weights_are_kept(void **state) {
    (void)state;
    struct oct__engine *portable = engine;
    EXPECT_OK(oct__engine_open("cpu", 1, &engine));
    for (int is_int8 = 0; is_int8 < 2; is_int8++) {
        struct oct_graph g;
        EXPECT_OK(oct__graph_init(&g, 32, 32, 3, 10, oct__norm_find("range-evonorm")));
        quantize(&g, is_int8 ? "octet" : NULL);
        EXPECT_OK(oct__model_build("resnet20", &g));
        EXPECT_OK(oct__graph_check(&g));
        check_plan(is_int8 ? "int8" : "fp32", &g, 2, 1.2);
        oct__graph_fini(&g);
    }
    oct__engine_close(engine);
    engine = portable;
}

static void plans_of_models(void **state) {
    (void)state;
    for (int i = 0; oct__model_at(i); i++) {
        for (int j = 0; oct__norm_at(j); j++) {
            for (size_t r = 0; r < OCT_COUNT_OF(recipes); r++) {
                struct oct_graph g;
                char name[128];
                EXPECT_OK(oct__graph_init(&g, 32, 32, 3, 10, oct__norm_at(j)));
                quantize(&g, recipes[r]);
                EXPECT_OK(oct__model_build(narrow_model(oct__model_at(i)->plugin.name), &g));
                EXPECT_OK(oct__graph_check(&g));
                snprintf(name, sizeof name, "%s, %s, %s", oct__model_at(i)->plugin.name,
                         oct__norm_at(j)->plugin.name, recipes[r] ? recipes[r] : "fp32");
                check_plan(name, &g, 5, 1.2);
                oct__graph_fini(&g);
            }
        }
    }
}

/* Random networks: each layer reads any value of the same shape that there is. */
static void plans_of_random_networks(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 120; seed++) {
        struct dice dice = dice_of(seed);
        struct oct_graph g;
        char name[32];
        EXPECT_OK(oct__graph_init(&g, 6, 6, 4, 3, oct__norm_at(dice_below(&dice, 5))));
        quantize(&g, recipes[dice_below(&dice, (int)OCT_COUNT_OF(recipes))]);
        oct_graph_input(&g);
        int n_layers = 5 + dice_below(&dice, 25);
        for (int i = 1; i < n_layers; i++) {
            int back = dice_below(&dice, 4) + 1;
            int x = i - (back > i ? i : back), y = dice_below(&dice, i);
            snprintf(name, sizeof name, "layer%d", i);
            switch (dice_below(&dice, 7)) {
            case 0:
            case 1:
                oct_graph_conv(&g, name, x,
                               (struct oct_conv){.channels = 4, .kernel = 3, .pad = 1, .bias = 1});
                break;
            case 2:
                oct_graph_norm(&g, name, x);
                break;
            case 3:
                oct_graph_relu(&g, name, x);
                break;
            case 4:
                oct_graph_add(&g, name, x, y);
                break;
            case 5:
                oct_graph_dropout(&g, name, x, 0.2);
                break;
            default:
                oct_graph_max_pool(&g, name, x, (struct oct_pool){3, 1, 1});
                break;
            }
        }
        int x = oct_graph_global_pool(&g, "pool", n_layers - 1);
        oct_graph_output(&g, oct_graph_linear(&g, "head", x, 3));
        EXPECT_OK(oct__graph_check(&g));
        snprintf(name, sizeof name, "random %u", seed);
        check_plan(name, &g, 19, 1.2);
        oct__graph_fini(&g);
    }
}

/* --- calls ----------------------------------------------------------------------------------- */

/* A training step of a small network; `config` says what is special about it. */
static struct oct_graph step_graph;

static struct oct__program *plan_step(struct oct__program_config config) {
    struct oct__program *program = NULL;
    EXPECT_OK(oct__graph_init(&step_graph, 16, 16, 3, 10, oct__norm_find("batchnorm")));
    EXPECT_OK(oct__model_build("resnet20", &step_graph));
    EXPECT_OK(oct__graph_check(&step_graph));
    config.mode = OCT_MODE_TRAIN;
    config.batch = 2;
    config.form = (struct oct__lane_form){1, 1, 16};
    config.dataset_images = 10;
    config.dataset_height = config.dataset_width = 16;
    EXPECT_OK(oct__program_create(engine, &step_graph, &config, &program));
    return program;
}

static void end_step(struct oct__program *program) {
    oct__program_destroy(program);
    oct__graph_fini(&step_graph);
}

/* Quasi-global momentum: gossip's result changes it, and with a part of its own the step does before. */
static void momentum_of_all_nodes(void **state) {
    (void)state;
    static const double owns[] = {0.0, 0.25, 1.0};
    for (size_t i = 0; i < OCT_COUNT_OF(owns); i++) {
        struct oct__program *program = plan_step((struct oct__program_config){
            .beta = 0.5F, .is_global = 1, .own = owns[i], .settles = 1});
        const struct oct__program_call *sgd = &program->calls[program->n_update - 1];
        const struct oct__program_call *settle = &program->calls[program->n_calls - 1];
        assert_int_equal(sgd->op, OCT_OP_SGD);
        assert_int_equal(settle->op, OCT_OP_SETTLE);
        assert_true(sgd->attr.sgd.is_global && sgd->attr.sgd.own == (float)(0.5 * owns[i]));
        /* the momentum decays once: after gossip, or where the step already has a part in it */
        assert_true(settle->attr.settle.beta == (owns[i] > 0.0 ? 1.0F : 0.5F));
        assert_true(settle->attr.settle.share == 0.5 * (1.0 - owns[i]));
        end_step(program);
    }
    /* what a round leaves of it is another thing than what a step takes of it */
    struct oct__program *program = plan_step(
        (struct oct__program_config){.beta = 0.5F, .is_global = 1, .keep = 0.875, .settles = 1});
    const struct oct__program_call *sgd = &program->calls[program->n_update - 1];
    const struct oct__program_call *settle = &program->calls[program->n_calls - 1];
    assert_true(sgd->attr.sgd.beta == 0.5F && sgd->attr.sgd.own == 0.0F);
    assert_true(settle->attr.settle.beta == 0.875F && settle->attr.settle.share == 0.125);
    end_step(program);
}

/* Slow momentum comes between the step and gossip, and keeps what gossip leaves before that is settled. */
static void momentum_of_rounds(void **state) {
    (void)state;
    for (int settles = 0; settles < 2; settles++) {
        struct oct__program *program = plan_step((struct oct__program_config){
            .beta = 0.5F, .slow_beta = 0.75, .slow_rate = 0.5, .settles = settles});
        const struct oct__program_call *sgd = &program->calls[program->n_update - 1];
        const struct oct__program_call *slow = &program->calls[program->n_update];
        const struct oct__program_call *copy = &program->calls[program->n_slow];
        assert_true(sgd->op == OCT_OP_SGD && slow->op == OCT_OP_SLOW && copy->op == OCT_OP_COPY);
        assert_int_equal(program->n_slow, program->n_update + 1);
        assert_int_equal(program->n_anchored, program->n_slow + 1);
        assert_int_equal(program->n_calls, program->n_anchored + (size_t)settles);
        assert_true(slow->attr.slow.beta == 0.75F && slow->attr.slow.rate == 0.5);
        /* of the row that the step has changed, to the row that slow momentum starts from */
        assert_int_equal(slow->tensors[0], sgd->tensors[0]);
        assert_int_equal(copy->tensors[0], sgd->tensors[0]);
        assert_int_equal(copy->tensors[1], slow->tensors[1]);
        end_step(program);
    }
    struct oct__program *program = plan_step((struct oct__program_config){.settles = 1});
    assert_int_equal(program->n_update, program->n_anchored);
    end_step(program);
}

/* Gradients are made shorter between backward and the step, where a limit is set. */
static void gradients_are_clipped(void **state) {
    (void)state;
    for (int is_clipped = 0; is_clipped < 2; is_clipped++) {
        struct oct__program *program =
            plan_step((struct oct__program_config){.clip = is_clipped ? 2.0 : 0.0});
        const struct oct__program_call *first = &program->calls[program->n_backward];
        const struct oct__program_call *sgd = &program->calls[program->n_update - 1];
        assert_int_equal(sgd->op, OCT_OP_SGD);
        assert_int_equal(program->n_update - program->n_backward, is_clipped ? 2 : 1);
        if (is_clipped) {
            assert_int_equal(first->op, OCT_OP_CLIP);
            assert_int_equal(first->tensors[0], sgd->tensors[2]);
            assert_true(first->attr.clip.norm == 2.0);
        }
        end_step(program);
    }
}

/* Every parameter that the logits depend on gets its gradient from exactly one call. */
static void gradients_are_written_once(void **state) {
    (void)state;
    struct oct_graph g;
    EXPECT_OK(oct__graph_init(&g, 16, 16, 3, 10, oct__norm_find("batchnorm")));
    EXPECT_OK(oct__model_build("resnet20", &g));
    EXPECT_OK(oct__graph_check(&g));
    struct oct__program *program = plan(&g, OCT_MODE_TRAIN, 4);
    for (size_t p = 0; p < g.params.n_items; p++) {
        int n_writers = 0;
        for (size_t i = 0; i < program->n_calls; i++) {
            const struct oct__program_call *call = &program->calls[i];
            for (int j = 0; oct__op_info[call->op].operands[j]; j++) {
                const struct oct__program_tensor *t =
                    call->tensors[j] < 0 ? NULL : &program->tensors[call->tensors[j]];
                if (t && t->home == OCT_HOME_GRAD && is_output(call->op, j) &&
                    t->offset == g.params.items[p].offset * sizeof(float)) {
                    assert_int_equal(oct__tensor_count(&t->shape), g.params.items[p].count);
                    n_writers++;
                }
            }
        }
        if (n_writers != 1) {
            fail_msg("%s: %d calls write its gradient", g.params.items[p].name, n_writers);
        }
    }
    assert_int_equal(program->calls[program->n_forward - 1].op, OCT_OP_LOSS);
    assert_int_equal(program->calls[program->n_calls - 1].op, OCT_OP_SGD);
    oct__program_destroy(program);
    oct__graph_fini(&g);
}

static size_t count_calls(const struct oct__program *program, enum oct__op op) {
    size_t n = 0;
    for (size_t i = 0; i < program->n_calls; i++) {
        n += program->calls[i].op == op;
    }
    return n;
}

/* The gradient of an image is nobody's wish; evaluation has neither backward calls nor dropout. */
static void no_needless_calls(void **state) {
    (void)state;
    struct oct_graph g;
    EXPECT_OK(oct__graph_init(&g, 8, 8, 3, 4, oct__norm_find("batchnorm")));
    int x = oct_graph_conv(&g, "a", oct_graph_input(&g), (struct oct_conv){4, 3, 1, 1, 1, 0});
    x = oct_graph_dropout(&g, "drop", oct_graph_norm(&g, "norm", x), 0.5);
    x = oct_graph_conv(&g, "b", x, (struct oct_conv){4, 3, 1, 1, 1, 0});
    x = oct_graph_global_pool(&g, "pool", oct_graph_relu(&g, "relu", x));
    oct_graph_output(&g, oct_graph_linear(&g, "head", x, 4));
    EXPECT_OK(oct__graph_check(&g));
    struct oct__program *train = plan(&g, OCT_MODE_TRAIN, 4), *eval = plan(&g, OCT_MODE_EVAL, 4);
    assert_int_equal(count_calls(train, OCT_OP_CONV), 3);
    assert_int_equal(count_calls(train, OCT_OP_CONV_WGRAD), 3);
    assert_int_equal(count_calls(train, OCT_OP_CONV_DGRAD), 2);
    assert_int_equal(count_calls(train, OCT_OP_DROPOUT), 2);
    assert_int_equal(count_calls(train, OCT_OP_BATCH_NORM), 1);
    assert_int_equal(count_calls(eval, OCT_OP_BATCH_NORM_EVAL), 1);
    assert_int_equal(count_calls(eval, OCT_OP_BATCH_NORM), 0);
    assert_int_equal(count_calls(eval, OCT_OP_DROPOUT), 0);
    assert_int_equal(count_calls(eval, OCT_OP_SGD), 0);
    assert_int_equal(eval->n_forward, eval->n_calls);
    oct__program_destroy(train);
    oct__program_destroy(eval);
    oct__graph_fini(&g);
}

/* --- numbers --------------------------------------------------------------------------------- */

static void draw(struct dice *dice, const struct oct_graph *g, uint8_t *images, size_t n_bytes,
                 float *lut, struct oct__pick *picks, int batch, float *params) {
    for (size_t i = 0; i < n_bytes; i++) {
        images[i] = (uint8_t)dice_below(dice, 256);
    }
    for (int i = 0; i < RIG_LUT; i++) {
        lut[i] = (float)(i % 256 - 120) / 75;
    }
    for (int i = 0; i < batch; i++) {
        picks[i] = (struct oct__pick){.row = dice_below(dice, 4), .label = dice_below(dice, 4)};
    }
    for (size_t i = 0; i < g->params.n_elements; i++) {
        params[i] = (float)(0.4 * dice_normal(dice));
    }
}

/* Logits that a later layer reads: a ReLU over them must not be done in their place, though it is
 * their only reader. */
static void a_layer_behind_the_output(void **state) {
    (void)state;
    float logits[2][3 * 4], lut[RIG_LUT], params[512];
    uint8_t images[4 * 2 * 2 * 3];
    struct oct__pick picks[3];
    for (int behind = 0; behind < 2; behind++) {
        struct oct_graph g;
        EXPECT_OK(oct__graph_init(&g, 2, 2, 3, 4, oct__norm_at(0)));
        int x = oct_graph_global_pool(&g, "pool", oct_graph_input(&g));
        x = oct_graph_linear(&g, "head", x, 4);
        oct_graph_output(&g, x);
        if (behind) {
            oct_graph_relu(&g, "behind", x);
        }
        EXPECT_OK(oct__graph_check(&g));
        assert_true(g.params.n_elements <= OCT_COUNT_OF(params));
        struct dice dice = dice_of(3);
        draw(&dice, &g, images, sizeof images, lut, picks, 3, params);
        struct rig rig;
        const struct rig_form form = {
            .mode = OCT_MODE_EVAL, .batch = 3, .n_nodes = 1, .n_threads = 1, .shard = 16};
        rig_open(&rig, engine, &g, &form, images, 4, lut);
        rig_write_row(&rig, OCT_HOME_PARAM, 0, params);
        rig_write_picks(&rig, 0, picks);
        rig_forward(&rig);
        rig_read(&rig, rig.program->logits, 0, logits[behind]);
        rig_close(&rig);
        oct__graph_fini(&g);
    }
    print_message("logits %.6f %.6f %.6f %.6f; with a ReLU behind them %.6f %.6f %.6f %.6f\n",
                  (double)logits[0][0], (double)logits[0][1], (double)logits[0][2],
                  (double)logits[0][3], (double)logits[1][0], (double)logits[1][1],
                  (double)logits[1][2], (double)logits[1][3]);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

/* Two steps of Nesterov momentum with weight decay, against the formula in double. */
static void updates(void **state) {
    (void)state;
    enum { BATCH = 5 };
    struct oct_graph g;
    float lut[RIG_LUT], params[512] = {0}, gradient[512], found[512], found_momentum[512];
    double x[512], m[512] = {0};
    uint8_t images[4 * 3 * 3 * 3];
    struct oct__pick picks[BATCH];
    EXPECT_OK(oct__graph_init(&g, 3, 3, 3, 4, oct__norm_find("groupnorm")));
    int v = oct_graph_conv(&g, "a", oct_graph_input(&g), (struct oct_conv){4, 3, 1, 1, 1, 1});
    v = oct_graph_global_pool(&g, "pool", oct_graph_norm(&g, "norm", v));
    oct_graph_output(&g, oct_graph_linear(&g, "head", v, 4));
    EXPECT_OK(oct__graph_check(&g));
    const size_t n = g.params.n_elements;
    assert_true(n <= OCT_COUNT_OF(params));
    struct dice dice = dice_of(8);
    draw(&dice, &g, images, sizeof images, lut, picks, BATCH, params);
    struct rig rig;
    const double rate = 0.25, beta = 0.9, decay = 0.03;
    const struct rig_form form = {.mode = OCT_MODE_TRAIN,
                                  .batch = BATCH,
                                  .n_nodes = 1,
                                  .n_threads = 1,
                                  .shard = 16,
                                  .learning_rate = (float)rate,
                                  .beta = (float)beta,
                                  .decay = (float)decay};
    rig_open(&rig, engine, &g, &form, images, 4, lut);
    rig_write_row(&rig, OCT_HOME_PARAM, 0, params);
    rig_write_picks(&rig, 0, picks);
    for (size_t i = 0; i < n; i++) {
        x[i] = (double)params[i];
    }
    for (int step = 0; step < 3; step++) {
        double worst = 0.0;
        rig_forward(&rig);
        rig_backward(&rig);
        rig_read_row(&rig, OCT_HOME_GRAD, 0, gradient);
        rig_run(&rig, rig.program->n_calls - 1, rig.program->n_calls);
        rig_read_row(&rig, OCT_HOME_PARAM, 0, found);
        rig_read_row(&rig, OCT_HOME_MOMENTUM, 0, found_momentum);
        for (size_t i = 0; i < n; i++) {
            double d = (double)gradient[i] + decay * x[i];
            m[i] = beta * m[i] + d;
            x[i] -= rate * (d + beta * m[i]);
            worst = fmax(worst, fabs(x[i] - (double)found[i]));
            worst = fmax(worst, fabs(m[i] - (double)found_momentum[i]));
        }
        print_message("step %d: parameters and momentum within %.1e\n", step, worst);
        assert_true(worst < 2e-6);
    }
    rig_close(&rig);
    oct__graph_fini(&g);
}

/* A failing engine: the status and sentence of its prepare reach the caller, and nothing leaks. */
static oct_status refuse(struct oct__engine *self, enum oct__op op,
                         const struct oct__lane_form *form, const struct oct__args *args,
                         struct oct__plan *out) {
    (void)self;
    (void)form;
    (void)args;
    (void)out;
    if (op == OCT_OP_MAX_POOL_GRAD) {
        OCT_FAIL(UNSUPPORTED, "no such pooling here");
    }
    return OCT_OK;
}

static void an_engine_that_refuses(void **state) {
    (void)state;
    struct oct_graph g;
    struct oct__program *program = NULL;
    EXPECT_OK(oct__graph_init(&g, 8, 8, 3, 4, oct__norm_at(0)));
    int x = oct_graph_conv(&g, "a", oct_graph_input(&g), (struct oct_conv){4, 3, 1, 1, 1, 0});
    x = oct_graph_max_pool(&g, "max", x, (struct oct_pool){2, 0, 0});
    x = oct_graph_global_pool(&g, "pool", x);
    oct_graph_output(&g, oct_graph_linear(&g, "head", x, 4));
    struct oct__engine odd = *engine;
    odd.prepare = refuse;
    odd.release = NULL;
    const struct oct__program_config config = {.mode = OCT_MODE_TRAIN,
                                               .batch = 2,
                                               .form = {1, 1, 16},
                                               .dataset_images = 1,
                                               .dataset_height = 8,
                                               .dataset_width = 8};
    EXPECT_FAILURE(oct__program_create(&odd, &g, &config, &program), OCT_STATUS_UNSUPPORTED,
                   "no such pooling here");
    assert_null(program);
    oct__graph_fini(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_models),
        cmocka_unit_test(momentum_of_all_nodes),
        cmocka_unit_test(momentum_of_rounds),
        cmocka_unit_test(gradients_are_clipped),
        cmocka_unit_test(packed_weights_are_kept),
        cmocka_unit_test(plans_of_random_networks),
        cmocka_unit_test(gradients_are_written_once),
        cmocka_unit_test(no_needless_calls),
        cmocka_unit_test(a_layer_behind_the_output),
        cmocka_unit_test(updates),
        cmocka_unit_test(an_engine_that_refuses),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
