// SPDX-License-Identifier: Apache-2.0

//! Errors: one variant for each `WEIR_ERROR_*`, each with the numbers and the sentence that the library keeps for the
//! thread. They are read at once where a call fails, on the thread that made it, so that an [`Error`] can go anywhere.

use crate::{Device, Tier};
use std::fmt;
use weir_sys as sys;
use weir_sys::Init as _;

/// What calls of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The numbers behind an error, and what happened in one sentence. What does not apply is 0 or `None`, but for `device`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detail {
    /// The library's own number for the error, `WEIR_ERROR_*`; 0 for what this crate found by itself.
    pub code: i32,
    /// What happened, in one sentence that names the value at fault.
    pub message: String,
    /// The tier that was short.
    pub tier: Tier,
    /// The device concerned, or [`Device::HOST`]; that too where none is.
    pub device: Device,
    /// Bytes asked for, rounded as they would be charged.
    pub asked: u64,
    /// Bytes that could have been had.
    pub available: u64,
    /// `asked - available`, where that is the reason.
    pub short_by: u64,
    /// Which of the uses is to blame, where one is.
    pub use_index: Option<u64>,
    /// The runtime's or the system's own code.
    pub native_code: i64,
}

macro_rules! errors {
    ($($(#[$meta:meta])* $variant:ident = $code:ident,)*) => {
        /// Why a call did not do what was asked. A failed call has changed nothing, unless its documentation says so.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$meta])* $variant(Box<Detail>),)*
            /// A closure that was called back has panicked. It was caught before it could unwind into C; the message is
            /// the panic's.
            Panicked(Box<Detail>),
            /// A number that this version of the crate has no name for: see [`Detail::code`].
            Unknown(Box<Detail>),
        }

        impl Error {
            fn of(code: i32, detail: Box<Detail>) -> Error {
                match code {
                    $(sys::$code => Error::$variant(detail),)*
                    _ => Error::Unknown(detail),
                }
            }

            /// The numbers and the sentence.
            pub fn detail(&self) -> &Detail {
                match self {
                    $(Error::$variant(detail) => detail,)*
                    Error::Panicked(detail) | Error::Unknown(detail) => detail,
                }
            }

            /// The number in C, `WEIR_ERROR_*`; 0 for [`Error::Panicked`].
            pub fn code(&self) -> i32 {
                match self {
                    $(Error::$variant(_) => sys::$code,)*
                    Error::Panicked(_) => 0,
                    Error::Unknown(detail) => detail.code,
                }
            }
        }
    };
}

errors! {
    /// An argument is out of range; the message names it and its value.
    InvalidArgument = WEIR_ERROR_INVALID_ARGUMENT,
    /// A handle is dead, or belongs to another pool or context.
    InvalidHandle = WEIR_ERROR_INVALID_HANDLE,
    /// Not possible here; the message says why.
    NotSupported = WEIR_ERROR_NOT_SUPPORTED,
    /// The host allocator refused; nothing was changed.
    OutOfHostMemory = WEIR_ERROR_OUT_OF_HOST_MEMORY,
    /// The request can never fit the budget as it stands; `short_by` tells by how much.
    OverBudget = WEIR_ERROR_OVER_BUDGET,
    /// It fits, but not while other leases are held; try after a release, or give a timeout.
    WouldBlock = WEIR_ERROR_WOULD_BLOCK,
    /// The deadline passed while waiting for other leases.
    Timeout = WEIR_ERROR_TIMEOUT,
    /// An unreleased lease forbids this one; `use_index` tells which use.
    LeaseConflict = WEIR_ERROR_LEASE_CONFLICT,
    /// The object is still in use.
    Busy = WEIR_ERROR_BUSY,
    /// The runtime refused memory inside the budget; the budget was lowered.
    DeviceOom = WEIR_ERROR_DEVICE_OOM,
    /// The device no longer answers.
    DeviceLost = WEIR_ERROR_DEVICE_LOST,
    /// The only copy of these bytes was on a lost device.
    DataLost = WEIR_ERROR_DATA_LOST,
    /// Stored bytes failed their checksum and no other copy exists.
    Corrupt = WEIR_ERROR_CORRUPT,
    /// A runtime call failed; its own code is `native_code`.
    Backend = WEIR_ERROR_BACKEND,
    /// The stream records a graph; residency can't be promised. A hold can.
    StreamCapturing = WEIR_ERROR_STREAM_CAPTURING,
    /// Called in a child of `fork`; GPU state does not survive a fork.
    Forked = WEIR_ERROR_FORKED,
    /// A file operation failed; errno is `native_code`.
    Io = WEIR_ERROR_IO,
    /// The request was cancelled, or its pool is ending.
    Cancelled = WEIR_ERROR_CANCELLED,
    /// The device is leaving the pool, or has left it.
    DeviceRemoved = WEIR_ERROR_DEVICE_REMOVED,
    /// An invariant of Weir's own did not hold; please report it.
    Internal = WEIR_ERROR_INTERNAL,
}

impl Error {
    /// What happened, in one sentence.
    pub fn message(&self) -> &str {
        &self.detail().message
    }

    /// The error that the calling thread's last call ended with.
    #[cold]
    #[inline(never)]
    pub(crate) fn last(code: sys::weir_result) -> Error {
        let mut info = sys::weir_error_info::INIT;
        // SAFETY: `info` is initialised; the text is copied before the thread's next call.
        let message = unsafe {
            if sys::weir_last_error_info(&mut info) == 0 && info.result == code {
                text(sys::weir_last_error())
            } else {
                info = sys::weir_error_info { device: sys::WEIR_DEVICE_HOST, ..sys::weir_error_info::INIT };
                text(sys::weir_result_string(code))
            }
        };
        let detail = Detail {
            code,
            message,
            tier: Tier::from_raw(info.tier),
            device: Device(info.device),
            asked: info.asked,
            available: info.available,
            short_by: info.short_by,
            use_index: (info.result != 0 && info.use_index != u64::MAX).then_some(info.use_index),
            native_code: info.native_code,
        };
        Error::of(code, Box::new(detail))
    }

    /// What this crate found wrong by itself.
    fn own(message: String) -> Box<Detail> {
        Box::new(Detail {
            code: 0,
            message,
            tier: Tier::None,
            device: Device::HOST,
            asked: 0,
            available: 0,
            short_by: 0,
            use_index: None,
            native_code: 0,
        })
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::InvalidArgument(Error::own(message.into()))
    }

    #[cold]
    pub(crate) fn not_supported(message: impl Into<String>) -> Error {
        Error::NotSupported(Error::own(message.into()))
    }

    #[cold]
    pub(crate) fn busy(message: impl Into<String>) -> Error {
        Error::Busy(Error::own(message.into()))
    }

    #[cold]
    pub(crate) fn conflict(message: impl Into<String>) -> Error {
        Error::LeaseConflict(Error::own(message.into()))
    }

    #[cold]
    pub(crate) fn panicked(message: String) -> Error {
        Error::Panicked(Error::own(message))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Panicked(detail) => write!(f, "a callback has panicked: {}", detail.message),
            other => {
                // SAFETY: it returns a constant text for every number.
                let name = unsafe { text(sys::weir_result_string(other.code())) };
                write!(f, "{name}: {}", other.message())
            }
        }
    }
}

impl std::error::Error for Error {}

/// The rest of the calling thread's last error, for people, in lines. Of a call that a pool has refused ([`Error::OverBudget`],
/// [`Error::DeviceOom`], [`Error::WouldBlock`], [`Error::Timeout`], [`Error::LeaseConflict`], [`Error::DataLost`]) it tells what
/// the tier that was short has now, the five buffers with most of it, by name, and what to do. Of other errors it is the
/// sentence alone. "" if there was no error, or there is no memory for the report.
///
/// Call it on the thread whose call has failed, before that thread's next call of this crate. The drop of a buffer, a lease or
/// another object of it is such a call, so ask where the error arises, not where it has been passed on to. The error of a [`Request`](crate::Request) is
/// of a thread of the pool's, and its report is to be had there alone: in the closure of
/// [`Pool::acquire_then`](crate::Pool::acquire_then). Not for a closure of the log or of a stream.
///
/// It looks at all buffers of the pool each time it is called, and keeps pools and contexts from ending meanwhile.
///
/// ```
/// # let context = weir::ContextOptions::new().options("host.memory=64M").open()?;
/// # let pool = weir::PoolOptions::new().device(weir::Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
/// # let stream = weir::Stream::new(&context, weir::Device(0))?;
/// let large = weir::BufferOptions::new(16 << 20).name("large").create(&pool)?;
/// if let Err(error) = pool.acquire(&stream, [weir::Use::read(&large)]) {
///     eprintln!("{error}\n{}", weir::last_error_report());
/// #   assert!(weir::last_error_report().contains("What to do: "));
/// }
/// # Ok::<(), weir::Error>(())
/// ```
pub fn last_error_report() -> String {
    let mut needed = 4096;
    loop {
        let mut bytes = vec![0u8; needed];
        let capacity = bytes.len();
        // SAFETY: there are `capacity` bytes.
        let result = unsafe { sys::weir_last_error_report(bytes.as_mut_ptr().cast(), capacity, &mut needed) };
        if result == sys::WEIR_INCOMPLETE {
            needed = needed.max(capacity) + 256; // it grows while others make buffers
            continue;
        }
        bytes.truncate(if result >= 0 { needed.saturating_sub(1) } else { 0 });
        return String::from_utf8_lossy(&bytes).into_owned();
    }
}

/// A C text as a Rust one.
///
/// # Safety
/// `text` is NULL or ends with a NUL.
pub(crate) unsafe fn text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Success, or the thread's last error.
#[inline]
pub(crate) fn check(result: sys::weir_result) -> Result<()> {
    if result >= 0 {
        Ok(())
    } else {
        Err(Error::last(result))
    }
}
