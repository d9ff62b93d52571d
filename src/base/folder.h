/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - folders: made, removed, brought to the disk. */
#ifndef OCT_BASE_FOLDER_H
#define OCT_BASE_FOLDER_H

#include "base/fail.h"

/* Makes `path` and the folders above it, to survive a crash; fine when it is there already. */
OCT_MUST_CHECK oct_status oct__folder_make(const char *path);

/* The same for the folder that a file of that path is to lie in. */
OCT_MUST_CHECK oct_status oct__folder_make_above(const char *path);

/* Removes a folder and everything in it; links are removed, never followed. Zero when it is gone. */
int oct__folder_remove(const char *path);

/* Makes the folder this process's until it ends or lets it go: a locked file `.lock` in it. IO when it is
 * another process's. Where nothing can be locked there is no key, 0, and nobody is kept out. */
OCT_MUST_CHECK oct_status oct__folder_take(const char *path, int *key);
void oct__folder_leave(const char *path, int key);

/* Brings the folder's entries to the disk, so that files made or renamed in it survive a crash. */
OCT_MUST_CHECK oct_status oct__folder_sync(const char *path);

#endif
