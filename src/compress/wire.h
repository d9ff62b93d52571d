/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - a packet as bytes that travel: docs/formats/wire.md, byte by byte.
 *
 * Both ends of an edge know the form (it follows from the run's configuration, whose number is in
 * the header), so a message says only what the form leaves open. A decoder trusts nothing: lengths,
 * order of indices, sums and scales are checked before a byte of the packet is written, and what it
 * refuses, it names.
 *
 * Equal packets give equal bytes and back: decode(encode(p)) is p, bit for bit, and there is exactly
 * one encoding.
 */
#ifndef OCT_COMPRESS_WIRE_H
#define OCT_COMPRESS_WIRE_H

#include "base/fail.h"
#include "engine/packet.h"

/* Bytes of the header: all that a message has besides its payload. */
#define OCT_WIRE_HEADER 42

struct oct__wire_header {
    uint64_t run; /* names the configuration */
    uint32_t sender;
    uint32_t round;
    double weight; /* the sender's push-sum weight */
};

/* Exactly the bytes that oct__wire_encode writes, header included. `packet` is on the host, and is
 * not looked at when everything is sent (OCT_SELECT_ALL): NULL will do then. */
size_t oct__wire_length(const struct oct__packet_form *form, const void *packet);
/* The same from the places that a packet keeps, which are all of it that matters. */
size_t oct__wire_length_of(const struct oct__packet_form *form, const uint32_t *index);

/* A message of so many plain floats: what ratios are taken against. */
size_t oct__wire_dense(size_t n_values);

/* The longest message of the form. */
size_t oct__wire_most(const struct oct__packet_form *form);

/* Writes the message; INVALID when `capacity` is too small, or the packet is none that an engine
 * makes (a code or an index that the form does not have, a scale below 0). */
OCT_MUST_CHECK oct_status oct__wire_encode(const struct oct__packet_form *form,
                                           const struct oct__wire_header *header,
                                           const void *packet, uint8_t *bytes, size_t capacity,
                                           size_t *length);

/* Only the header, of a message of any form whose length and sum are right: whose it is, and of which
 * round, is known before its payload is looked at. */
OCT_MUST_CHECK oct_status oct__wire_peek(const uint8_t *bytes, size_t length,
                                         struct oct__wire_header *header);

/* CORRUPT for anything that oct__wire_encode would not have written for this form; `packet` and
 * `header` are then as they were. The caller compares run, sender and round. */
OCT_MUST_CHECK oct_status oct__wire_decode(const struct oct__packet_form *form,
                                           const uint8_t *bytes, size_t length,
                                           struct oct__wire_header *header, void *packet);

#endif
