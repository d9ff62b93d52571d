/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_info.c - octet info, octet version: what this build is, and what it does on this machine.
 *
 * The first thing to ask for in a report of a problem.
 */
#include "cli.h"

#include <string.h>

#include <octet/cpu.h>
#include <octet/octet.h>

#include "base/parallel.h"
#include "kernels/kernels.h"

/* What the build may have, and whether it has. */
static const struct {
    const char *name, *use;
    int is_in;
} parts[] = {
#ifdef OCT_HAVE_THREADS
    {"threads", "POSIX threads", 1},
#else
    {"threads", "POSIX threads", 0},
#endif
#ifdef OCT_HAVE_DNNL
    {"oneDNN", "products", 1},
#else
    {"oneDNN", "products", 0},
#endif
#ifdef OCT_HAVE_ZLIB
    {"zlib", "compressed dataset files", 1},
#else
    {"zlib", "compressed dataset files", 0},
#endif
#ifdef OCT_HAVE_CURL
    {"libcurl", "downloads", 1},
#else
    {"libcurl", "downloads", 0},
#endif
#ifdef OCT_HAVE_ARCHIVE
    {"libarchive", "dataset archives", 1},
#else
    {"libarchive", "dataset archives", 0},
#endif
#ifdef OCT_HAVE_JANSSON
    {"jansson", "JSON", 1},
#else
    {"jansson", "JSON", 0},
#endif
#ifdef OCT_HAVE_YAML
    {"libyaml", "run files", 1},
#else
    {"libyaml", "run files", 0},
#endif
#ifdef OCT_HAVE_SQLITE
    {"SQLite", "records of runs", 1},
#else
    {"SQLite", "records of runs", 0},
#endif
#ifdef OCT_HAVE_LAPACK
    {"LAPACK", "spectral gaps", 1},
#else
    {"LAPACK", "spectral gaps", 0},
#endif
#ifdef OCT_HAVE_JPEG
    {"libjpeg-turbo", "JPEG files", 1},
#else
    {"libjpeg-turbo", "JPEG files", 0},
#endif
#ifdef OCT_HAVE_PNG
    {"libpng", "PNG files", 1},
#else
    {"libpng", "PNG files", 0},
#endif
};

#if defined(__clang__)
#define COMPILER "Clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "GCC " __VERSION__
#else
#define COMPILER "unknown"
#endif

static const struct {
    enum oct_plugin_kind kind;
    const char *key, *heading;
} lists[] = {
    {OCT_PLUGIN_ENGINE, "engines", "Engines"},
    {OCT_PLUGIN_MODEL, "models", "Models"},
    {OCT_PLUGIN_NORM, "norms", "Norms"},
    {OCT_PLUGIN_RECIPE, "recipes", "Recipes of 8-bit training"},
    {OCT_PLUGIN_SCHEDULE, "schedules", "Schedules"},
    {OCT_PLUGIN_DATASET, "datasets", "Datasets"},
    {OCT_PLUGIN_PARTITION, "partitions", "Partitions of the data"},
    {OCT_PLUGIN_TOPOLOGY, "topologies", "Topologies"},
    {OCT_PLUGIN_ALGORITHM, "algorithms", "Algorithms of gossip"},
    {OCT_PLUGIN_COMPRESSOR, "compressors", "Compressors of messages"},
    {OCT_PLUGIN_TRANSPORT, "transports", "Transports"},
};

static struct cli_json *plugins_json(enum oct_plugin_kind kind) {
    struct cli_json *list = cli_json_array();
    const struct oct_plugin *plugin;
    for (int i = 0; (plugin = oct_plugin_at(kind, i)) != NULL; i++) {
        struct cli_json *object = cli_json_object();
        cli_json_text(object, "name", plugin->name);
        cli_json_text(object, "summary", plugin->summary);
        cli_json_text(object, "reference", plugin->reference);
        cli_json_text(object, "options", plugin->options);
        cli_json_flag(object, "available", !plugin->unavailable);
        cli_json_text(object, "unavailable", plugin->unavailable);
        cli_json_add(list, object);
    }
    return list;
}

static int info_json(void) {
    enum oct_cpu_level level = oct_cpu_level();
    struct cli_json *root = cli_json_object(), *cpu = cli_json_object();
    cli_json_text(root, "version", oct_version());
    cli_json_text(cpu, "brand", oct_cpu_brand());
    cli_json_text(cpu, "level", oct_cpu_level_name(level));
    cli_json_text(cpu, "machine_level", oct_cpu_level_name(oct_cpu_machine_level()));
    cli_json_int(cpu, "threads", oct__parallel_width());
    cli_json_put(root, "cpu", cpu);
    struct cli_json *kernels = cli_json_array();
    for (int i = 0; oct__kernel_name(i); i++) {
        struct cli_json *kernel = cli_json_object();
        cli_json_text(kernel, "name", oct__kernel_name(i));
        cli_json_text(kernel, "variant", oct__kernel_variant(i, level));
        cli_json_add(kernels, kernel);
    }
    cli_json_put(root, "kernels", kernels);
    for (size_t i = 0; i < CLI_COUNT_OF(lists); i++) {
        cli_json_put(root, lists[i].key, plugins_json(lists[i].kind));
    }
    struct cli_json *build = cli_json_object(), *with = cli_json_array(),
                    *without = cli_json_array();
    cli_json_text(build, "compiler", COMPILER);
    for (size_t i = 0; i < CLI_COUNT_OF(parts); i++) {
        cli_json_add_text(parts[i].is_in ? with : without, parts[i].name);
    }
    cli_json_put(build, "with", with);
    cli_json_put(build, "without", without);
    cli_json_put(root, "build", build);
    return cli_json_print(root);
}

/* Kernels by variant, because most share one: "avx512: add_f32, relu_f32, …". */
static void print_kernels(enum oct_cpu_level level, int width) {
    for (int l = OCT_CPU_COUNT - 1; l >= 0; l--) {
        const char *variant = oct_cpu_level_name((enum oct_cpu_level)l);
        char text[4096] = "";
        for (int i = 0; oct__kernel_name(i); i++) {
            const char *used = oct__kernel_variant(i, level);
            if (used && strcmp(used, variant) == 0) {
                size_t at = strlen(text);
                snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "", oct__kernel_name(i));
            }
        }
        if (text[0]) {
            printf("  %-20s ", variant);
            cli_wrap(stdout, text, 23, 23, width);
        }
    }
}

static void print_plugins(enum oct_plugin_kind kind, int width) {
    const struct oct_plugin *plugin;
    for (int i = 0; (plugin = oct_plugin_at(kind, i)) != NULL; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s%s%s%s", plugin->summary,
                 plugin->options ? "; options: " : "", plugin->options ? plugin->options : "",
                 plugin->unavailable ? "; unavailable: " : "",
                 plugin->unavailable ? plugin->unavailable : "");
        printf("  %-20s ", plugin->name);
        cli_wrap(stdout, text, 23, 23, width);
    }
}

static void heading(const char *text) {
    printf("\n%s%s%s\n", cli_style(stdout, CLI_BOLD), text, cli_style(stdout, CLI_PLAIN));
}

static void info_text(void) {
    enum oct_cpu_level level = oct_cpu_level();
    int width = cli_width(stdout, 100);
    char with[1024] = "", without[1024] = "";
    for (size_t i = 0; i < CLI_COUNT_OF(parts); i++) {
        char *list = parts[i].is_in ? with : without;
        size_t used = strlen(list);
        snprintf(list + used, sizeof with - used, "%s%s (%s)", used ? ", " : "", parts[i].name,
                 parts[i].use);
    }
    printf("%soctet %s%s\n", cli_style(stdout, CLI_BOLD), oct_version(),
           cli_style(stdout, CLI_PLAIN));
    printf("  %-20s %s\n", "processor", oct_cpu_brand());
    printf("  %-20s %s: %s\n", "level", oct_cpu_level_name(level), oct_cpu_level_meaning(level));
    if (level != oct_cpu_machine_level()) {
        printf("  %-20s %s, lowered by OCT_CPU\n", "machine has",
               oct_cpu_level_name(oct_cpu_machine_level()));
    }
    printf("  %-20s %d\n", "threads", oct__parallel_width());
    printf("  %-20s %s\n", "compiler", COMPILER);
    printf("  %-20s ", "built with");
    cli_wrap(stdout, with[0] ? with : "nothing but the C library", 23, 23, width);
    if (without[0]) {
        printf("  %-20s ", "built without");
        cli_wrap(stdout, without, 23, 23, width);
    }
    for (size_t i = 0; i < CLI_COUNT_OF(lists); i++) {
        heading(lists[i].heading);
        print_plugins(lists[i].kind, width);
    }
    heading("Kernels, by the variant in use");
    print_kernels(level, width);
}

static int info(struct cli *cli) {
    if (cli->json) {
        return info_json();
    }
    info_text();
    return CLI_DONE;
}

static int version(struct cli *cli) {
    if (cli->json) {
        struct cli_json *root = cli_json_object();
        cli_json_text(root, "version", oct_version());
        return cli_json_print(root);
    }
    printf("octet %s\n", oct_version());
    return CLI_DONE;
}

static const char *const no_options[] = {NULL};

static const struct cli_example info_examples[] = {
    {"info", "processor, kernels, plug-ins"},
    {NULL, NULL},
};

const struct cli_command cli_info = {
    .name = "info",
    .summary = "processor, kernels, plug-ins, and why one is missing",
    .about = "Says what this build can do on this machine. OCT_CPU lowers the level of "
             "instructions: OCT_CPU=avx2 octet info.",
    .options = no_options,
    .examples = info_examples,
    .json =
        "version, cpu (brand, level, machine_level, threads), kernels (name, variant), engines, "
        "models, norms, recipes, schedules, datasets, partitions, topologies, algorithms, "
        "compressors, transports (name, summary, reference, options, available, unavailable), "
        "build (compiler, with, without)",
    .run = info,
};

const struct cli_command cli_version = {
    .name = "version",
    .summary = "the version; also octet --version",
    .about = "Prints the version.",
    .options = no_options,
    .json = "version",
    .run = version,
};
