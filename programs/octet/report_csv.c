/* SPDX-License-Identifier: Apache-2.0 */
/* report_csv.c - a report for programs: comma-separated values (RFC 4180).
 *
 * Numbers have as many digits as tell them apart; what is not known is an empty field.
 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_real(FILE *out, double value) {
    char text[40];
    fputc(',', out);
    for (int digits = 6; isfinite(value) && digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value || digits == 17) {
            fputs(text, out);
            return;
        }
    }
}

static void put_begin(FILE *out, const struct report_run *run, int epoch) {
    fprintf(out, "%lld,", (long long)run->facts.number);
    cli_csv_text(out, run->facts.label);
    fprintf(out, ",%d", epoch);
}

void report_csv(const struct report *report, FILE *out) {
    fputs("run,label,epoch,accuracy,loss,train_accuracy,train_loss,train_accuracy_least,"
          "train_accuracy_most,train_loss_least,train_loss_most,consensus_distance,bytes_sent,"
          "learning_rate,samples_per_s,seconds,clipped,zero\r\n",
          out);
    for (int r = 0; r < report->n_runs; r++) {
        const struct report_run *run = &report->runs[r];
        for (int i = 0; i < run->n_epochs; i++) {
            const struct report_epoch *epoch = &run->epochs[i];
            const struct oct_run_epoch *row = &epoch->row;
            put_begin(out, run, row->epoch);
            put_real(out, row->accuracy);
            put_real(out, row->loss);
            put_real(out, row->train_accuracy);
            put_real(out, row->train_loss);
            put_real(out, epoch->accuracy.least);
            put_real(out, epoch->accuracy.most);
            put_real(out, epoch->loss.least);
            put_real(out, epoch->loss.most);
            put_real(out, row->consensus_distance);
            fprintf(out, ",%llu", (unsigned long long)row->bytes_sent);
            put_real(out, row->learning_rate);
            put_real(out, row->samples_per_s);
            put_real(out, row->seconds);
            put_real(out, row->clipped);
            put_real(out, row->zero);
            fputs("\r\n", out);
        }
    }
}

static oct_status csv_nodes_of(const struct report_run *run, int epoch, struct oct_runs *runs,
                               FILE *out) {
    struct oct_run_node node;
    oct_status status;
    for (int i = 0; (status = oct_runs_node_at(runs, run->facts.number, epoch, i, &node)) == OCT_OK;
         i++) {
        put_begin(out, run, epoch);
        fprintf(out, ",%d", node.node);
        put_real(out, node.train_accuracy);
        put_real(out, node.train_loss);
        put_real(out, node.consensus_distance);
        fprintf(out, ",%llu,%lld", (unsigned long long)node.bytes_sent, (long long)node.n_samples);
        put_real(out, node.accuracy);
        fputs("\r\n", out);
    }
    return status == OCT_STATUS_NOT_FOUND ? OCT_OK : status;
}

oct_status report_csv_nodes(const struct report *report, struct oct_runs *runs, FILE *out) {
    fputs("run,label,epoch,node,train_accuracy,train_loss,consensus_distance,bytes_sent,n_samples,"
          "accuracy\r\n",
          out);
    oct_status status = OCT_OK;
    for (int r = 0; r < report->n_runs; r++) {
        const struct report_run *run = &report->runs[r];
        for (int i = 0; i < run->n_epochs && status == OCT_OK; i++) {
            status = csv_nodes_of(run, run->epochs[i].row.epoch, runs, out);
        }
    }
    return status;
}
