/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - what the parts of the command `octet` share.
 *
 * A command is one file that ends with one `const struct cli_command`, and one row in main.c. The
 * row dispatches it, parses its options, and writes its part of the help and of the man page.
 *
 *     main.c       environment, dispatch, signals       args.c      options, strictly
 *     cmd_*.c      the commands                         json.c      JSON objects (jansson)
 *     cmd_help.c   help from the tables                 progress.c  what moves on a terminal
 *     man.c        octet.1 from the tables              table.c     aligned columns, numbers
 *     quant.c      quantizers, listed and summed up     opening.c   what a run is about to do
 *     training.c   a run from its data to its result    summary.c   what it came to
 *     database.c   where runs are on record             record.c    putting one there
 *     bench_*.c    parts of octet bench step            svg.c       drawings
 *     runs_*.c     parts of octet runs                  chart.c     curves between axes
 *     report_*.c   parts of octet report (report.h)     draw_*.c    graphs, and who holds what
 *     output.c     files, whole or not at all           ranks.c     one of many processes
 *     paper_*.c    parts of octet paper (paper.h)
 *
 * Results go to stdout, all else to stderr; with --json stdout carries exactly one object.
 */
#ifndef OCTET_CLI_H
#define OCTET_CLI_H

#include <stdint.h>
#include <stdio.h>

#include <octet/config.h>
#include <octet/dataset.h>
#include <octet/plugin.h>
#include <octet/ranks.h>
#include <octet/runs.h>
#include <octet/status.h>
#include <octet/trainer.h>

#define CLI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* --- commands ------------------------------------------------------------------------------- */

struct cli;

struct cli_example {
    const char *line; /* what to type, without "octet " */
    const char *what; /* what that does */
};

struct cli_command {
    const char *name;      /* "bench step": one word, or two */
    const char *arguments; /* words it takes, as the help shows them; NULL: none */
    int least_words, most_words;
    const char *summary;          /* one line */
    const char *about;            /* a paragraph */
    const struct oct_option *own; /* options beside the table's; ends with a NULL name; a NULL
                                         * placeholder is a flag. One that has the name of a row of
                                         * the table takes its place. A CHOICE chooses as the table's
                                         * row of its name, or else of its placeholder, does. */
    const char *repeats;          /* one of `own` that may be given several times: values
                                         * are joined by CLI_JOINT; NULL: the last one counts */
    const char *const *options;   /* names from the option table, ends with NULL; NULL: all */
    const char *const *defaults;  /* name, value, … , NULL: defaults unlike the table's */
    int has_settings; /* what the table's options are otherwise is set elsewhere: no defaults to show */
    const struct cli_example *examples; /* ends with a NULL line */
    const char *json;                   /* keys of its JSON object */
    int keeps_config; /* its configuration goes into files that may be read elsewhere: the
                         environment's data folder stays out of it (see cli_data_folder) */
    int (*run)(struct cli *cli); /* returns the exit code */
};

extern const struct cli_command cli_train, cli_test, cli_bench_step, cli_bench_kernels,
    cli_bench_codec, cli_bench_infer, cli_bench_gradients, cli_data_list, cli_data_get,
    cli_data_verify, cli_partition, cli_topology_command, cli_runs, cli_runs_delete,
    cli_report_command, cli_paper, cli_info, cli_help, cli_version;

/* Commands in the order of the help; NULL past the end. */
const struct cli_command *cli_command_at(int index);

/* The command those words name; *n_used says how many belong to it. NULL when none does. */
const struct cli_command *cli_command_find(const char *const *words, int n_words, int *n_used);

/* --- the parsed command line (args.c) ------------------------------------------------------- */

/* Between the values of an option that was given several times. */
#define CLI_JOINT '\x1f'

#define CLI_OWN_MOST 12
#define CLI_WORDS_MOST 64

struct cli {
    const struct cli_command *command; /* NULL before it is known */
    struct oct_config *config;
    const char *own[CLI_OWN_MOST];    /* values of command->own; flags are "1"; NULL: not given */
    char *joined;                     /* the value of command->repeats, if there were several */
    const struct oct_option *dealing; /* --partition or its short form, whichever was given */
    const char *words[CLI_WORDS_MOST];
    int n_words;
    int json, quiet, verbose, help;
    char data_folder[4096]; /* the environment's; "" when it names none */
};

/* Options that every command takes beside --seed and --threads; ends with a NULL name. */
extern const struct oct_option cli_common[];

/* Row `index` of what the command takes: its own options first, then the table's rows, each followed
 * by its short form where there is one (--skew); NULL past the end. The common ones are not among
 * them. */
const struct oct_option *cli_option_at(const struct cli_command *command, int index);

/* The command's default of an option as text; "" when it depends on the rest. */
const char *cli_option_default(const struct cli_command *command, const struct oct_option *option);

/* Parses what follows the command. Reports mistakes itself; returns CLI_DONE or CLI_USAGE. */
int cli_parse(struct cli *cli, int argc, char **argv);

/* The value of one of the command's own options: what was given, else its default. A number has
 * been checked. NULL for a flag that was not given. */
const char *cli_own(const struct cli *cli, const char *name);
double cli_own_number(const struct cli *cli, const char *name);

/* The name that was meant: offer every candidate, then look at `name` (NULL: none is near). */
struct cli_guess {
    const char *given;
    const char *name;
    int distance;
};

void cli_guess_from(struct cli_guess *guess, const char *candidate);

/* Cuts "fp32,int8" in place (cmd_bench_step.c). Every name is checked; returns CLI_DONE or the exit
 * code of a mistake that it has reported. */
#define CLI_PRECISIONS_MOST 8
int cli_precisions(struct cli *cli, char *list, const char **names, int *n_names);

/* --- many processes (ranks.c) --------------------------------------------------------------- */

/* Joins the other ranks if that is what the transport is; ranks other than 0 have no stdout from then
 * on. Looks for it on the command line before anything else is done. */
oct_status cli_ranks_begin(const char *transport);
void cli_ranks_look(int argc, char **argv);

/* Nonzero: the transport is mpi, be it with one rank. */
int cli_ranks_are_begun(void);

/* Somebody who has mpirun start the program without that transport gets as many runs. Told once. */
void cli_ranks_warn(const struct cli *cli);

/* Nonzero: somebody else will say it. */
int cli_ranks_hush(oct_status status, const char *message);

/* The exit code of all ranks. */
int cli_ranks_end(int code);

/* --- saying what went wrong (main.c) -------------------------------------------------------- */

/* Prints one line on stderr and, with --json, the error object on stdout. Returns `code`. */
int cli_error(const struct cli *cli, enum cli_exit code, oct_status status, const char *format, ...)
    OCT_PRINTF(4, 5);

/* The same for what a library call left in oct_last_error. INVALID is wrong usage, CANCELLED an
 * interruption, the rest failures. */
int cli_fail(const struct cli *cli, oct_status status);

/* The exit code of that. */
enum cli_exit cli_exit_of(oct_status status);

/* Wrong usage: the line, and where to read more. */
int cli_usage(const struct cli *cli, const char *format, ...) OCT_PRINTF(2, 3);

/* Memory for the program's own small things; ends the program when there is none. */
void *cli_alloc(size_t bytes);

/* Where downloaded datasets are: the option, else the environment's folder; NULL: neither. */
const char *cli_data_folder(const struct cli *cli);

/* --- Ctrl-C (main.c) ------------------------------------------------------------------------ */

/* From now on the first SIGINT or SIGTERM only sets a flag; the second ends the program. */
void cli_interrupt_catch(void);
int cli_interrupted(void);

/* --- JSON (json.c) -------------------------------------------------------------------------- */

struct cli_json;

/* False when the program was built without jansson; the rest of these then does nothing. */
int cli_json_available(void);

struct cli_json *cli_json_object(void);
struct cli_json *cli_json_array(void);
void cli_json_text(struct cli_json *object, const char *key, const char *value); /* NULL: null */
void cli_json_real(struct cli_json *object, const char *key, double value); /* not finite: null */
void cli_json_int(struct cli_json *object, const char *key, int64_t value);
void cli_json_flag(struct cli_json *object, const char *key, int value);
void cli_json_put(struct cli_json *object, const char *key, struct cli_json *child); /* takes it */
void cli_json_add(struct cli_json *array, struct cli_json *child);                   /* takes it */
void cli_json_add_text(struct cli_json *array, const char *value);
void cli_json_add_int(struct cli_json *array, int64_t value);
void cli_json_add_real(struct cli_json *array, double value); /* not finite: null */

/* An option's value, a number as a number; and a configuration, all of them as an object. */
void cli_json_option(struct cli_json *object, const char *name, const char *value);
struct cli_json *cli_json_config(const struct oct_config *config);

void cli_json_destroy(struct cli_json *json); /* one that will not be printed */

/* Adds "schema" first, writes the object and a newline to stdout, destroys it; returns CLI_DONE or,
 * when memory ran out on the way, CLI_FAILED. */
int cli_json_print(struct cli_json *object);

/* --- tables and numbers (table.c) ----------------------------------------------------------- */

#define CLI_TABLE_COLUMNS 12

struct cli_table {
    int n_columns, n_rows, next; /* next: column that the next cell fills */
    char align[CLI_TABLE_COLUMNS];
    char **cells; /* [n_rows][n_columns], row 0 the headings */
    size_t capacity;
};

/* `heads` are separated by '|'; '>' before one aligns its column to the right, '~' before the last
 * wraps it to the width of the terminal, '.' cuts it there. */
void cli_table_init(struct cli_table *table, const char *heads);
void cli_table_cell(struct cli_table *table, const char *format, ...) OCT_PRINTF(2, 3);
void cli_table_print(const struct cli_table *table, FILE *out);
void cli_table_fini(struct cli_table *table);

/* Text wrapped at `width`, its first line beginning at column `at`, later ones at `indent`. Ends
 * with a newline. Returns the number of lines. */
int cli_wrap(FILE *out, const char *text, int at, int indent, int width);

/* Bytes of the control character that the text begins with; 0: it begins with another. */
int cli_control_bytes(const char *text);

/* A text of somebody's, such as a label, as part of a line: control characters are blanks, as they
 * are in tables and in what is wrapped. */
void cli_put(FILE *out, const char *text);

/* A word as a shell takes it: in quotes where it is anything but plain, with numbers for control
 * characters. */
void cli_quote(FILE *out, const char *text);

struct cli_text {
    char text[32];
};

struct cli_text cli_count(double number);              /* 1,234,567 */
struct cli_text cli_bytes(uint64_t bytes);             /* 41.3 MiB */
struct cli_text cli_time(double seconds);              /* 2:07 */
struct cli_text cli_decimals(double x, int digits);    /* 0.4312; "-" when not finite */
struct cli_text cli_percent(double share, int digits); /* 0.1234 is 12.3 % */
struct cli_text cli_times(double ratio);               /* 1.49 x; "-" when not finite */
struct cli_text cli_part(double ratio);                /* 1/2.70, or 1.20 x from 1 on */

/* What was sent while training as a part of plain floats after every step. `dense` is what the same
 * messages would be as plain floats, and there was one in `every` steps, as the option has it ("" counts
 * as 1); steps after the last of them do not count. NaN where nothing was sent. */
double cli_of_dense(uint64_t sent, uint64_t final, uint64_t dense, const char *every);

/* " after every step", where that says more than nothing. */
const char *cli_every_step(const char *every);

/* --- quantizers (quant.c) ------------------------------------------------------------------- */

struct cli_quantizers {
    struct cli_quantizer {
        char *layer;
        int is_gradient;
        double clipped, zero, scale; /* as in struct oct_quantizer */
    } * rows;
    int n, capacity;
};

/* What the quantizers of values, or those of gradients, do together. */
struct cli_clips {
    int n;                /* how many there are */
    double clipped, zero; /* shares 0 to 1, means over them; NAN without any */
    double worst;         /* the largest share clipped, and where */
    const char *layer;
};

void cli_quantizers_add(struct cli_quantizers *list, const struct oct_quantizer *quantizer);

/* All that the last watched step of `trainer` left, instead of what was in the list. */
void cli_quantizers_read(struct cli_quantizers *list, const struct oct_trainer *trainer);
struct cli_clips cli_quantizers_clips(const struct cli_quantizers *list, int is_gradient);
void cli_quantizers_print(const struct cli_quantizers *list, FILE *out);

/* As an array; each carries "recipe" unless that is NULL. */
void cli_quantizers_json(const struct cli_quantizers *list, const char *recipe,
                         struct cli_json *array);
void cli_quantizers_fini(struct cli_quantizers *list);

/* --- the terminal (progress.c) -------------------------------------------------------------- */

/* Columns and lines of the terminal behind `stream`; `otherwise` when it is none. */
int cli_width(FILE *stream, int otherwise);
int cli_height(FILE *stream, int otherwise);

/* Whether characters beyond ASCII may be printed (the locale's encoding is UTF-8). */
int cli_utf8(void);

enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_GREEN, CLI_RED };

/* The escape sequence of a style for `stream`; "" when it is no terminal or NO_COLOR is set. */
const char *cli_style(FILE *stream, enum cli_style style);

/* One line on stderr that redraws itself; silent with --quiet, plain lines in a pipe. */
void cli_progress_begin(const struct cli *cli);

/* Epochs that follow are of so many nodes: several also agree, and send. */
void cli_progress_nodes(int n_nodes);

/* `quantizers` are those of the epoch that ended, to be summed up in its line; NULL: none. */
void cli_progress_train(const struct oct_progress *progress,
                        const struct cli_quantizers *quantizers);

/* A line that stays; epochs from here on get headings of their own. */
void cli_progress_heading(const char *format, ...) OCT_PRINTF(1, 2);
void cli_progress_bytes(const char *file, uint64_t done_bytes, uint64_t total_bytes);
void cli_progress_note(const char *format, ...) OCT_PRINTF(1, 2); /* until the next call */
void cli_progress_say(const char *format, ...) OCT_PRINTF(1, 2);  /* stays */
void cli_progress_clear(void);

/* Whether something can be redrawn: a terminal, and not --quiet. */
int cli_progress_is_live(void);

/* Whether a redraw is due (ten a second; the first always is), so that the caller draws now. */
int cli_progress_due(void);

/* Several lines, in place of what is there; none is wider than the terminal, and fewer than it has.
 * Without a terminal, nothing. */
void cli_progress_lines(const char *const *lines, int n_lines);

/* "head ━━━━──── tail": the bar takes what the texts leave of `width` columns; parts of the tail are
 * dropped from its end until the bar has room. */
void cli_bar_line(char *out, size_t bytes, int width, const char *head, double share,
                  const char *const *tail, int n_tail);

/* --- a training run (training.c, opening.c, summary.c) -------------------------------------- */

/* A run as the command sees it: what it is given, and what becomes of it. */
struct cli_record;
struct cli_run {
    const struct oct_config *config;
    struct cli_record *record; /* NULL: not recorded */
    void *show_context;        /* for the training's `show` */
    oct_status status;         /* how it ended; OK also when Ctrl-C stopped it */
    int stopped;               /* by Ctrl-C, before its end */
    char reason[512];          /* why it failed */
    struct oct_result result;
    oct_status saving;                /* of the model, where it was wanted */
    char unsaved[512];                /* why it was not */
    struct cli_quantizers quantizers; /* of a run that is traced */
};

/* The samples of a run, or of several. Over ranks both are NULL, and each rank's trainer opens what it
 * needs of them in `folder`. */
struct cli_data {
    struct oct_dataset *train, *test;
    const char *folder; /* borrowed; NULL: there is none */
};

oct_status cli_data_open(struct cli_data *data, const struct cli *cli,
                         const struct oct_config *config);
void cli_data_close(struct cli_data *data);

/* How runs are carried out. */
struct cli_training {
    const struct cli *cli;
    const struct cli_data *data;
    const char *save;         /* file for the model of a run that is alone; NULL: not saved */
    enum oct_model_form form; /* of that file */
    int traced;               /* their quantizers are */
    int opens;                /* says what the first is about to do */
    oct_progress_fn *show;    /* shows progress; NULL: cli_progress_train does */
    int is_brief;             /* a run that is stopped is not evaluated: it will go on */
    int refused; /* set to the exit code of what has been reported already: a database that cannot be
                    used; or else CLI_DONE */
};

/* What can be wrong with the options of a run before its data is read: the graph, and the folder of
 * its checkpoints. Reports it; returns the exit code. */
int cli_training_check(const struct cli *cli, const struct oct_config *config);

/* `n` runs side by side, from their trainers' creation to their end; those that Ctrl-C stopped are
 * evaluated as they were. Returns what kept the trainers from being made, or else OK: how each run
 * ended is in its `status` and `reason`. */
oct_status cli_training_run(struct cli_training *training, struct cli_run *runs, int n);

/* All that octet train found out. */
struct cli_report {
    struct cli_run first, second;
    const char *compare; /* the second's precision; NULL: there is none */
    oct_status failure;  /* of the second */
    const char *saved;   /* file of the model */
    enum oct_model_form form;
    const char *checkpoint; /* folder that has one; NULL: none was written */
    const char *database;   /* that the run is recorded in, and its number there; NULL: none */
    int64_t number;
    int traced, stopped; /* stopped: either of them, or between them */
};

int cli_nodes(const struct oct_config *config);

/* Whether messages go over a graph: not with a single node, nor in the controls. */
int cli_talks(const struct oct_config *config);

/* The graph that the options describe. */
struct oct_topology;
oct_status cli_topology(const struct oct_config *config, struct oct_topology **out);

/* What the run is about to do, in a few lines on stderr. The partition is that of `train`. */
void cli_opening_print(const struct oct_config *config, const struct oct_dataset *train);

void cli_report_print(const struct cli_report *report);
int cli_report_json(const struct cli_report *report); /* returns the exit code */

/* --- runs on record (database.c, record.c) -------------------------------------------------- */

/* The database of runs that the option `db` means. */
struct cli_database {
    char path[4096];
    int is_named; /* by the user; or else it is the one in the state folder */
};

/* Zero when there is none: it says "none", or the environment has no place for one. */
int cli_database(const struct oct_config *config, struct cli_database *out);

/* A run that is being recorded; nothing is when `runs` is NULL. */
struct cli_record {
    struct oct_runs *runs;
    struct oct_trainer *trainer; /* borrowed, from begin to end */
    int64_t number;              /* of the run; 0: it is not on record */
    struct cli_database database;
    int may_fail;       /* --record try */
    int n_waiting;      /* epochs that could not be written yet */
    oct_status failure; /* the record was begun and is not complete, and why */
    char reason[512];
};

/* Before training begins. A database that cannot be used is reported, and the exit code returned;
 * with --record try, and where there is no place for the default one and nobody set --record must, it
 * costs a warning. */
int cli_record_begin(struct cli_record *record, const struct cli *cli,
                     const struct oct_config *config, struct oct_trainer *trainer);

/* From the progress callback; phases other than OCT_PHASE_EPOCH_END are ignored. */
void cli_record_epoch(struct cli_record *record, const struct oct_progress *progress);

/* After it, however it ended, which `run` says; `result` may be NULL. Closes the database;
 * `number` and `database` stay. */
void cli_record_end(struct cli_record *record, const struct cli_run *run,
                    const struct oct_result *result);

/* Once the results are printed: says what is missing in the record. Returns the exit code that `code`
 * becomes by it. */
int cli_record_check(const struct cli_record *record, const struct cli *cli, int code);

/* --- files (output.c) ------------------------------------------------------------------------ */

enum { CLI_PLACE_BYTES = 4096 };

/* A file that is complete or not there at all: it is written beside its place and then put there. "-"
 * is stdout; what is no regular file, such as a device or a pipe, is written to directly. */
struct cli_output {
    const char *path;
    FILE *file;
    char *beside; /* where it is written; NULL: there itself */
};

/* 0, or the errno of what went wrong. */
int cli_output_open(struct cli_output *output, const char *path);
/* Puts it there; when `is_good` is 0, takes it away instead. 0, or errno. */
int cli_output_close(struct cli_output *output, int is_good);
/* Reports the error that one of them, or svg_close, has returned; returns the exit code. */
int cli_output_say(const struct cli *cli, const char *path, int error);

/* Where it comes to lie: what its links lead to; and whether it is replaced as a whole, as files are
 * but for the names of open ones (/dev/stdout). 0, or errno. The library does so with models. */
int cli_output_place(const char *path, char place[CLI_PLACE_BYTES], int *is_whole);

/* Whether it is "-". */
int cli_is_stdout(const char *path); /* may be NULL */

/* Whether the files that the command's own options name (a list that ends with NULL) can all be
 * written: stdout has room for one, and none beside the JSON object. Tells how many there are; returns
 * CLI_DONE or the exit code of what it has reported. */
int cli_output_check(const struct cli *cli, const char *const *options, int *n_files);

/* A field of comma-separated values (RFC 4180): in quotes where it must be. */
void cli_csv_text(FILE *out, const char *text);

/* --- help (cmd_help.c, man.c) --------------------------------------------------------------- */

int cli_help_print(const struct cli *cli, const struct cli_command *command);

/* Choice `index` of an option (see cli_command.own), as the help shows it, and the plug-in behind it
 * (NULL: none). */
const char *cli_choice_at(const struct oct_option *option, int index,
                          const struct oct_plugin **plugin);

void cli_man_print(FILE *out);

#endif
