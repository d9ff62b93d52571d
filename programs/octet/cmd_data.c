/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_data.c - octet data: which datasets there are, fetching one, checking them. */
#include "cli.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include <octet/dataset.h>

static const char *const data_options[] = {"data-dir", NULL};

static const struct oct_option get_own[] = {
    {.name = "from",
     .placeholder = "URL",
     .summary = "fetch from this address instead of the dataset's own",
     .group = "Data"},
    {.name = NULL},
};

static const struct cli_example list_examples[] = {
    {"data list", "what is here, and how to get the rest"},
    {NULL, NULL},
};

static const struct cli_example get_examples[] = {
    {"data get cifar10", "into the data folder"},
    {"data get cifar10 --data-dir /srv/data", "somewhere else"},
    {NULL, NULL},
};

static const struct cli_example verify_examples[] = {
    {"data verify", "every dataset that is here"},
    {"data verify cifar10", "one"},
    {"data verify npy:mine", "arrays of your own, in the folder mine"},
    {NULL, NULL},
};

/* What is known about one dataset after looking at its files. */
struct found {
    const struct oct_plugin *plugin;
    oct_status status;
    char path[4096];
    char reason[512];
    uint64_t n_bytes; /* on disk */
};

/* Bytes of the files in a folder and `depth` folders below it, as they lie there. */
static uint64_t folder_bytes(const char *folder, int depth) {
    uint64_t total = 0;
    DIR *directory = opendir(folder);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)) != NULL) {
        char path[4096];
        struct stat file;
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || length < 0 || (size_t)length >= sizeof path ||
            stat(path, &file) != 0) {
            continue;
        }
        if (S_ISREG(file.st_mode)) {
            total += (uint64_t)file.st_size;
        } else if (S_ISDIR(file.st_mode) && depth > 0) {
            total += folder_bytes(path, depth - 1);
        }
    }
    if (directory) {
        closedir(directory);
    }
    return total;
}

static const char *data_folder(const struct cli *cli) {
    const char *folder = oct_config_get(cli->config, "data-dir");
    return folder && *folder ? folder : NULL;
}

/* `spec` is the plug-in's name, with the options that the user gave. */
static void look(const struct cli *cli, const struct oct_plugin *plugin, const char *spec,
                 struct found *found) {
    memset(found, 0, sizeof *found);
    found->plugin = plugin;
    if (plugin->unavailable) {
        found->status = OCT_STATUS_UNSUPPORTED;
        snprintf(found->reason, sizeof found->reason, "unavailable: %s", plugin->unavailable);
        return;
    }
    cli_progress_note("checking %s", plugin->name);
    found->status = oct_dataset_verify(spec, data_folder(cli), found->path, sizeof found->path);
    if (found->status == OCT_OK) {
        found->n_bytes = found->path[0] ? folder_bytes(found->path, 2) : 0;
    } else {
        found->path[0] = '\0';
        snprintf(found->reason, sizeof found->reason, "%s", oct_last_error());
    }
}

/* The dataset of "NAME" or "NAME:OPTIONS". */
static const struct oct_plugin *find_dataset(const char *spec) {
    const struct oct_plugin *plugin;
    size_t length = strcspn(spec, ":");
    for (int i = 0; (plugin = oct_plugin_at(OCT_PLUGIN_DATASET, i)) != NULL; i++) {
        if (strlen(plugin->name) == length && strncmp(plugin->name, spec, length) == 0) {
            return plugin;
        }
    }
    return NULL;
}

/* The named dataset, or a usage error that lists the names. */
static int need_dataset(const struct cli *cli, const char *name, const struct oct_plugin **out) {
    *out = find_dataset(name);
    if (*out) {
        return CLI_DONE;
    }
    char names[256] = "";
    struct cli_guess guess = {.given = name};
    const struct oct_plugin *plugin;
    for (int i = 0; (plugin = oct_plugin_at(OCT_PLUGIN_DATASET, i)) != NULL; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", plugin->name);
        cli_guess_from(&guess, plugin->name);
    }
    return cli_usage(cli, "'%.40s' is no dataset, expected one of: %s%s%s%s", name, names,
                     guess.name ? "; did you mean '" : "", guess.name ? guess.name : "",
                     guess.name ? "'?" : "");
}

static const char *verdict(const struct found *found) {
    switch (found->status) {
    case OCT_OK:
        return "ok";
    case OCT_STATUS_UNSUPPORTED:
        return "unavailable";
    case OCT_STATUS_NOT_FOUND:
        return "missing";
    case OCT_STATUS_INVALID:
        return "unusable"; /* whole, but not what a dataset can be made of */
    default:
        return "damaged";
    }
}

static struct cli_json *found_json(const struct found *found) {
    struct cli_json *object = cli_json_object();
    cli_json_text(object, "name", found->plugin->name);
    cli_json_text(object, "summary", found->plugin->summary);
    cli_json_text(object, "path", found->path[0] ? found->path : NULL);
    cli_json_flag(object, "ok", found->status == OCT_OK);
    cli_json_text(object, "state", verdict(found));
    cli_json_text(object, "reason", found->status == OCT_OK ? NULL : found->reason);
    cli_json_int(object, "bytes", (int64_t)found->n_bytes);
    return object;
}

/* Looks at one dataset or at all; *n_damaged counts what is here but wrong. */
static int look_at(const struct cli *cli, const char *name, int *n_damaged, int *n_absent) {
    const struct oct_plugin *only = NULL, *plugin;
    int code = name ? need_dataset(cli, name, &only) : CLI_DONE;
    if (code != CLI_DONE) {
        return code;
    }
    struct cli_table table;
    cli_table_init(&table, "dataset|state|>size|~where, or what to do");
    struct cli_json *list = cli->json ? cli_json_array() : NULL;
    *n_damaged = *n_absent = 0;
    for (int i = 0; (plugin = oct_plugin_at(OCT_PLUGIN_DATASET, i)) != NULL; i++) {
        if (only && plugin != only) {
            continue;
        }
        struct found found;
        look(cli, plugin, only ? name : plugin->name, &found);
        int absent = found.status == OCT_STATUS_NOT_FOUND || found.status == OCT_STATUS_UNSUPPORTED;
        *n_absent += absent;
        *n_damaged += found.status != OCT_OK && !absent;
        if (list) {
            cli_json_add(list, found_json(&found));
            continue;
        }
        cli_table_cell(&table, "%s", plugin->name);
        cli_table_cell(&table, "%s", verdict(&found));
        cli_table_cell(&table, "%s", found.n_bytes ? cli_bytes(found.n_bytes).text : "-");
        cli_table_cell(&table, "%s",
                       found.status != OCT_OK ? found.reason
                                              : (found.path[0] ? found.path : plugin->summary));
    }
    cli_progress_clear();
    if (list) {
        struct cli_json *root = cli_json_object();
        cli_json_text(root, "data_dir", data_folder(cli));
        cli_json_put(root, "datasets", list);
        code = cli_json_print(root);
    } else {
        cli_table_print(&table, stdout);
    }
    cli_table_fini(&table);
    return code;
}

static int data_list(struct cli *cli) {
    int n_damaged, n_absent;
    return look_at(cli, cli->n_words ? cli->words[0] : NULL, &n_damaged, &n_absent);
}

/* Without a name, what is not here cannot be wrong; a name that is not here is. */
static int data_verify(struct cli *cli) {
    int n_damaged = 0, n_absent = 0;
    int code = look_at(cli, cli->n_words ? cli->words[0] : NULL, &n_damaged, &n_absent);
    if (code != CLI_DONE) {
        return code;
    }
    return n_damaged > 0 || (cli->n_words && n_absent > 0) ? CLI_FAILED : CLI_DONE;
}

static int show_download(const char *file, uint64_t done_bytes, uint64_t total_bytes,
                         void *context) {
    (void)context;
    cli_progress_bytes(file, done_bytes, total_bytes);
    return cli_interrupted();
}

static int data_get(struct cli *cli) {
    const struct oct_plugin *plugin = NULL;
    int code = need_dataset(cli, cli->words[0], &plugin);
    if (code != CLI_DONE) {
        return code;
    }
    if (!data_folder(cli)) {
        return cli_usage(cli, "no data folder; give --data-dir DIR or set OCTET_DATA");
    }
    cli_interrupt_catch();
    cli_progress_note("fetching %s", plugin->name);
    oct_status status =
        oct_dataset_get(plugin->name, data_folder(cli), cli_own(cli, "from"), show_download, NULL);
    if (status != OCT_OK) {
        return cli_fail(cli, status);
    }
    int n_damaged = 0, n_absent = 0;
    code = look_at(cli, plugin->name, &n_damaged, &n_absent);
    return code == CLI_DONE && n_damaged + n_absent > 0 ? CLI_FAILED : code;
}

const struct cli_command cli_data_list = {
    .name = "data list",
    .arguments = "[NAME]",
    .most_words = 1,
    .summary = "which datasets are here, and how to get the others",
    .about = "Looks for every dataset in the data folder and where the system's packages put it, "
             "and compares checksums.",
    .options = data_options,
    .examples = list_examples,
    .json = "data_dir, datasets (name, summary, path, ok, state, reason, bytes)",
    .run = data_list,
};

const struct cli_command cli_data_get = {
    .name = "data get",
    .arguments = "NAME",
    .least_words = 1,
    .most_words = 1,
    .summary = "fetch a dataset and check it",
    .about = "Downloads a dataset into the data folder. Nothing is used, and nothing replaces an "
             "older file, before its checksum is right, or, of a dataset that has none, before all "
             "its files are there and whole. --from takes a path, too.",
    .own = get_own,
    .options = data_options,
    .examples = get_examples,
    .json = "as data list, for the one dataset",
    .run = data_get,
};

const struct cli_command cli_data_verify = {
    .name = "data verify",
    .arguments = "[NAME]",
    .most_words = 1,
    .summary = "read every file of a dataset and compare checksums",
    .about = "Exits with 1 when the named dataset is missing or damaged; without a name, when any "
             "that is here is damaged.",
    .options = data_options,
    .examples = verify_examples,
    .json = "as data list",
    .run = data_verify,
};
