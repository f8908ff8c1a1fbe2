// SPDX-License-Identifier: Apache-2.0
//
// Clang's thread-safety attributes, and nothing for other compilers. scripts/check-locks compiles core and api with
// -Wthread-safety -Werror: what a mutex guards is then read and written with the mutex held, or the build fails.
#pragma once

#if defined(__clang__)
#define WEIR_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define WEIR_THREAD_SAFETY(attribute)
#endif

/** @{ Of classes: one that is a lock, and one that holds a lock for a scope. */
#define WEIR_CAPABILITY(name) WEIR_THREAD_SAFETY(capability(name))
#define WEIR_SCOPED WEIR_THREAD_SAFETY(scoped_lockable)
/** @} */
/// Of data: only with the lock held.
#define WEIR_GUARDED_BY(lock) WEIR_THREAD_SAFETY(guarded_by(lock))
/** @{ Of functions: called with the lock held, called without it, take it, drop it. */
#define WEIR_REQUIRES(...) WEIR_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define WEIR_EXCLUDES(...) WEIR_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define WEIR_ACQUIRE(...) WEIR_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define WEIR_RELEASE(...) WEIR_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define WEIR_TRY_ACQUIRE(...) WEIR_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
/** @} */
