/*
 * CASES(n): how many of n cases drawn by chance a test runs. With a sanitizer each takes several times as long, and what the
 * sanitizer looks for is the same code in each: a third must do. The release build runs them all.
 */
#ifndef SUPPORT_CASES_H
#define SUPPORT_CASES_H

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define CASES(n) (((n) + 2) / 3)
#else
#define CASES(n) (n)
#endif

#endif
