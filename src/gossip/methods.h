/* SPDX-License-Identifier: Apache-2.0 */
/* methods.h - the three ways in which algorithms make a message, each with and without push-sum. */
#ifndef OCT_GOSSIP_METHODS_H
#define OCT_GOSSIP_METHODS_H

#include "gossip/gossip.h"

/* x itself: what compression leaves out is lost for this round. */
oct_status oct__plain_send(const struct oct__turn *turn);
oct_status oct__plain_merge(const struct oct__turn *turn);
double oct__plain_gamma(const struct oct__compression *compression);

/* Error feedback: what was left out is added to the next message. */
oct_status oct__feedback_send(const struct oct__turn *turn);
oct_status oct__feedback_merge(const struct oct__turn *turn);
double oct__feedback_gamma(const struct oct__compression *compression);

/* Differences to a replica that the receivers have, too. */
oct_status oct__replica_send(const struct oct__turn *turn);
oct_status oct__replica_merge(const struct oct__turn *turn);
double oct__replica_gamma(const struct oct__compression *compression);

#endif
