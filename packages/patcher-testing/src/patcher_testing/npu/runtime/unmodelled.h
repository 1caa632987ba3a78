/* How a runtime function that is not modelled answers: with an error that names it, never with success. */
#ifndef PATCHER_TESTING_UNMODELLED_H
#define PATCHER_TESTING_UNMODELLED_H

/* ACL_ERROR_RT_FEATURE_NOT_SUPPORT in the public AscendCL error code list. */
enum { UNMODELLED = 207000 };

/* Remembers `function` for aclGetRecentErrMsg and returns UNMODELLED. */
long unmodelled(const char *function);

/* For C++ symbols, whose callers ignore an integer result: reports `function` and aborts. */
void unmodelled_abort(const char *function);

#endif
