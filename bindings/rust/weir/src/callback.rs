// SPDX-License-Identifier: Apache-2.0

//! What stands between C and the closures it calls back. No panic gets past [`Panics::guard`]; it is counted, and its
//! message kept until it is asked for.
//!
//! A pool's own threads call closures too, and a closure may drop the last thing that keeps a pool alive. A thread of the
//! pool can't wait for itself to end, so [`on_pool_thread`] lets the pool's end be left to another thread.

use crate::{Error, Result};
use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

/// The panics of one object's callbacks.
#[derive(Default)]
pub(crate) struct Panics {
    state: Mutex<(u64, Option<String>)>,
}

impl Panics {
    /// Runs `body`; `None` if it panicked.
    pub(crate) fn guard<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        match catch(body) {
            Ok(value) => Some(value),
            Err(message) => {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.0 += 1;
                state.1.get_or_insert(message);
                None
            }
        }
    }

    /// The message of the first panic since the last call.
    pub(crate) fn take(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1.take()
    }

    /// How many there were in all.
    pub(crate) fn count(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Runs `body`, and makes a message of its panic.
fn catch<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(message)
}

/// A panic's text. What the panic carried may panic itself while it is dropped; that ends here too.
fn message(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a text".to_owned(),
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        if let Err(third) = catch_unwind(AssertUnwindSafe(|| drop(second))) {
            std::mem::forget(third);
        }
    }
    text
}

thread_local! {
    static ON_POOL_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` as what a thread of a pool runs.
pub(crate) fn as_pool_thread<R>(body: impl FnOnce() -> R) -> R {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            ON_POOL_THREAD.with(|flag| flag.set(self.0));
        }
    }
    let _reset = Reset(ON_POOL_THREAD.with(|flag| flag.replace(true)));
    body()
}

/// Whether this is a thread of a pool, in a callback.
pub(crate) fn on_pool_thread() -> bool {
    ON_POOL_THREAD.try_with(Cell::get).unwrap_or(false)
}

/// Runs a closure that C calls on the thread that called C: its panic ends there and becomes the call's error.
pub(crate) struct Carried(Option<String>);

impl Carried {
    pub(crate) fn new() -> Carried {
        Carried(None)
    }

    /// `stop` if the closure panicked.
    pub(crate) fn run<R>(&mut self, stop: R, body: impl FnOnce() -> R) -> R {
        match catch(body) {
            Ok(value) => value,
            Err(message) => {
                self.0.get_or_insert(message);
                stop
            }
        }
    }

    /// The outcome of the call: the panic if there was one.
    pub(crate) fn outcome<T>(self, result: Result<T>) -> Result<T> {
        match self.0 {
            Some(message) => Err(Error::panicked(message)),
            None => result,
        }
    }
}
