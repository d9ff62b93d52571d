/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - downloads over HTTP with libcurl.
 *
 * Only http and https, also after a redirection: a server must not be able to point us at a local
 * file. What arrives is trusted for nothing; checksums are compared by the caller.
 */
#include "data/fetch.h"

#include <string.h>

#ifdef OCT_HAVE_CURL

#include <pthread.h>

#include <curl/curl.h>

struct transfer {
    const struct oct__fetch *fetch;
    const char *name; /* what the progress callback is told */
    struct oct__incoming *incoming;
    uint64_t total;    /* bytes announced; 0: unknown */
    oct_status status; /* of our own side: OK, IO, CORRUPT or CANCELLED */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode started = CURLE_FAILED_INIT;

static void start_curl(void) {
    started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take_bytes(char *bytes, size_t size, size_t count, void *context) {
    struct transfer *transfer = context;
    transfer->status = oct__incoming_write(transfer->incoming, bytes, size * count);
    return transfer->status == OCT_OK ? size * count : 0;
}

static int tell_progress(void *context, curl_off_t total, curl_off_t done, curl_off_t up_total,
                         curl_off_t up_done) {
    (void)up_total;
    (void)up_done;
    struct transfer *transfer = context;
    const struct oct__fetch *fetch = transfer->fetch;
    transfer->total = total > 0 ? (uint64_t)total : 0;
    if (fetch->progress &&
        fetch->progress(transfer->name, (uint64_t)done, transfer->total, fetch->context) != 0) {
        transfer->status =
            oct__fail(OCT_STATUS_CANCELLED, "%s: the download was cancelled", transfer->name);
        return 1;
    }
    return 0;
}

/* A proxy cannot reach what listens on this machine alone. */
static int is_loopback(const char *url) {
    return strncmp(url, "http://127.0.0.1:", 17) == 0 || strncmp(url, "http://localhost:", 17) == 0;
}

static CURLcode set_up(CURL *curl, const char *url, struct transfer *transfer, char *error) {
    CURLcode bad = CURLE_OK;
#define SET(option, value) bad = bad ? bad : curl_easy_setopt(curl, option, value)
    SET(CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    SET(CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, 5L);
    SET(CURLOPT_FAILONERROR, 1L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "octet");
    SET(CURLOPT_CONNECTTIMEOUT_MS, transfer->fetch->connect_ms);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1000L);
    SET(CURLOPT_LOW_SPEED_TIME, transfer->fetch->stall_s);
    SET(CURLOPT_ERRORBUFFER, error);
    SET(CURLOPT_WRITEFUNCTION, take_bytes);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, tell_progress);
    SET(CURLOPT_XFERINFODATA, transfer);
    if (is_loopback(url)) {
        SET(CURLOPT_NOPROXY, "*");
    }
#undef SET
    return bad;
}

/* Says in our words what libcurl's code means. */
static oct_status explain(CURL *curl, CURLcode code, const char *url, const char *error,
                          const struct transfer *transfer) {
    const char *shown = oct__path_shown(url);
    char done[OCT_GROUPED_BYTES], total[OCT_GROUPED_BYTES];
    const char *got = oct__grouped(transfer->incoming->n_bytes, done);
    long answer = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer);
    switch (code) {
    case CURLE_HTTP_RETURNED_ERROR:
        OCT_FAIL(NETWORK, "%s: the server answered %ld%s", shown, answer,
                 answer == 404 ? " (not found)" : "");
    case CURLE_PARTIAL_FILE:
        OCT_FAIL(NETWORK, "%s: the connection ended after %s of %s bytes; try again", shown, got,
                 oct__grouped(transfer->total, total));
    case CURLE_OPERATION_TIMEDOUT:
        OCT_FAIL(NETWORK, "%s: no progress after %s bytes, given up; try again", shown, got);
    case CURLE_OUT_OF_MEMORY:
        OCT_FAIL(NO_MEMORY, "%s: no memory for the download", shown);
    default:
        OCT_FAIL(NETWORK, "%s: %s", shown, error[0] ? error : curl_easy_strerror(code));
    }
}

oct_status oct__fetch_url(const struct oct__fetch *fetch, const char *url,
                          struct oct__incoming *incoming) {
    pthread_once(&once, start_curl);
    CURL *curl = started == CURLE_OK ? curl_easy_init() : NULL;
    if (!curl) {
        OCT_FAIL(NO_MEMORY, "%s: libcurl could not be started", oct__path_shown(url));
    }
    const char *slash = strrchr(url, '/');
    struct transfer transfer = {
        .fetch = fetch, .name = slash ? slash + 1 : url, .incoming = incoming, .status = OCT_OK};
    char error[CURL_ERROR_SIZE] = "";
    CURLcode code = set_up(curl, url, &transfer, error);
    if (code == CURLE_OK) {
        code = curl_easy_perform(curl);
    }
    oct_status status = transfer.status;
    if (status == OCT_STATUS_CORRUPT) {
        status = oct__fail_within(status, "%s: ", oct__path_shown(url));
    } else if (status == OCT_OK && code != CURLE_OK) {
        status = explain(curl, code, url, error, &transfer);
    }
    curl_easy_cleanup(curl);
    return status;
}

#else

oct_status oct__fetch_url(const struct oct__fetch *fetch, const char *url,
                          struct oct__incoming *incoming) {
    (void)fetch;
    (void)incoming;
    OCT_FAIL(UNSUPPORTED, "%s: this build has no libcurl to download it", oct__path_shown(url));
}

#endif
