// SPDX-License-Identifier: Apache-2.0
//
// The C ABI of Weir as bindgen reads it from api/include/weir. Not written by hand: scripts/test-rust --regenerate
// writes it anew, and scripts/test-rust fails if it is not what the headers give.

pub const WEIR_CAP_VMM: u64 = 1;
pub const WEIR_CAP_MULTI_MAP: u64 = 2;
pub const WEIR_CAP_MAP_MAY_BLOCK_DEVICE: u64 = 4;
pub const WEIR_CAP_STREAM_ANY_THREAD: u64 = 8;
pub const WEIR_CAP_PEER: u64 = 16;
pub const WEIR_CAP_EXPORT_FD: u64 = 32;
pub const WEIR_CAP_BATCH_COPY: u64 = 64;
pub const WEIR_CAP_KERNELS: u64 = 128;
pub const WEIR_CAP_HOST_CALL: u64 = 256;
pub const WEIR_CAP_HOST_ACCESS: u64 = 512;
pub const WEIR_CAP_MAP_ANY_THREAD: u64 = 1024;
pub const WEIR_CAP_HOST_REGISTER: u64 = 2048;
pub const WEIR_CAP_EXPORT_FABRIC: u64 = 4096;
pub const WEIR_CAP_MAP_PART: u64 = 8192;
pub const WEIR_CAP_INTEGRATED: u64 = 16384;
pub const WEIR_CAP_SHARED_RANGE: u64 = 32768;
pub const WEIR_CAP_MAP_RUN: u64 = 65536;
pub const WEIR_CAP_ACCESS_LATER: u64 = 131072;
pub const WEIR_CAP_TRANSFER_STREAM: u64 = 262144;
pub const WEIR_CAP_NATIVE_MEMORY: u64 = 524288;
pub const WEIR_DEVICE_HOST: u32 = 0xffffffff;
pub const WEIR_DEVICE_DEFAULT: u32 = 0xfffffffe;
pub const WEIR_DEVICE_ALL: u32 = 0xfffffffd;
pub const WEIR_DEVICE_ANY: u32 = 0xfffffffc;
pub const WEIR_WHOLE: u64 = u64::MAX;
pub const WEIR_UNLIMITED: u64 = u64::MAX;
pub const WEIR_NONE: u64 = u64::MAX - 1;
pub const WEIR_INFINITE: u64 = u64::MAX;
pub const WEIR_VULKAN_BUFFER_DEVICE_ADDRESS: u64 = 1;
pub const WEIR_VULKAN_TIMELINE_SEMAPHORE: u64 = 2;
pub const WEIR_VULKAN_SPARSE: u64 = 4;
pub const WEIR_VULKAN_SPARSE_ALIASED: u64 = 8;
pub const WEIR_VULKAN_EXTERNAL_MEMORY_HOST: u64 = 16;
pub const WEIR_VULKAN_EXTERNAL_MEMORY_FD: u64 = 32;

pub const WEIR_VERSION_MAJOR: u32 = 1;
pub const WEIR_VERSION_MINOR: u32 = 0;
pub const WEIR_VERSION_PATCH: u32 = 0;
pub const WEIR_VERSION_NUMBER: u32 = 1000000;
pub const WEIR_ELEMENT_SLOTS: u32 = 32;
pub const WEIR_CODEC_SLOTS: u32 = 32;
pub const WEIR_ARENA_CLASSES: u32 = 64;
/// Outcome of a call: 0 is success, positive values are answers that are not errors, negative ones errors.
pub type weir_result = i32;
pub const WEIR_SUCCESS: _bindgen_ty_1 = 0;
/// a query was answered: the work is not finished yet
pub const WEIR_NOT_READY: _bindgen_ty_1 = 1;
/// a list or a text was cut for want of room; the call says how much there is
pub const WEIR_INCOMPLETE: _bindgen_ty_1 = 2;
/// an argument is out of range; the message names it and its value
pub const WEIR_ERROR_INVALID_ARGUMENT: _bindgen_ty_1 = -1;
/// a handle is NULL, dead, or belongs to another pool or context
pub const WEIR_ERROR_INVALID_HANDLE: _bindgen_ty_1 = -2;
/// not possible here; the message says why (docs/not-supported.md)
pub const WEIR_ERROR_NOT_SUPPORTED: _bindgen_ty_1 = -3;
/// the host allocator refused; nothing was changed
pub const WEIR_ERROR_OUT_OF_HOST_MEMORY: _bindgen_ty_1 = -4;
/// the request can never fit the budget as it stands; bytes short are told
pub const WEIR_ERROR_OVER_BUDGET: _bindgen_ty_1 = -5;
/// it fits, but not while other leases are held; try after a release
pub const WEIR_ERROR_WOULD_BLOCK: _bindgen_ty_1 = -6;
/// the deadline passed while waiting for other leases
pub const WEIR_ERROR_TIMEOUT: _bindgen_ty_1 = -7;
/// an unreleased lease (write against any, any against write) or a hold forbids it
pub const WEIR_ERROR_LEASE_CONFLICT: _bindgen_ty_1 = -8;
/// the object is still in use
pub const WEIR_ERROR_BUSY: _bindgen_ty_1 = -9;
/// the runtime refused memory inside the budget; the budget was lowered
pub const WEIR_ERROR_DEVICE_OOM: _bindgen_ty_1 = -10;
/// the device no longer answers
pub const WEIR_ERROR_DEVICE_LOST: _bindgen_ty_1 = -11;
/// the only copy of these bytes was on a lost device
pub const WEIR_ERROR_DATA_LOST: _bindgen_ty_1 = -12;
/// stored bytes failed their checksum and no other copy exists
pub const WEIR_ERROR_CORRUPT: _bindgen_ty_1 = -13;
/// a runtime call failed; its native code is in weir_error_info
pub const WEIR_ERROR_BACKEND: _bindgen_ty_1 = -14;
/// the stream records a graph; residency can't be promised (see weir_hold)
pub const WEIR_ERROR_STREAM_CAPTURING: _bindgen_ty_1 = -15;
/// called in a child of fork(); GPU state does not survive a fork
pub const WEIR_ERROR_FORKED: _bindgen_ty_1 = -16;
/// a file operation failed; errno is the native code
pub const WEIR_ERROR_IO: _bindgen_ty_1 = -17;
/// the request was cancelled, or its pool is being destroyed
pub const WEIR_ERROR_CANCELLED: _bindgen_ty_1 = -18;
/// the device is leaving the pool, or has left it (weir_pool_remove_device)
pub const WEIR_ERROR_DEVICE_REMOVED: _bindgen_ty_1 = -19;
/// an invariant of Weir's own did not hold; please report it
pub const WEIR_ERROR_INTERNAL: _bindgen_ty_1 = -20;
/// Values of a weir_result.
pub type _bindgen_ty_1 = ::core::ffi::c_int;
extern "C" {
    /// A short constant text such as "over budget"; never NULL, also for unknown values. Never freed.
    pub fn weir_result_string(result: weir_result) -> *const ::core::ffi::c_char;
}
extern "C" {
    /// Library version as "major.minor.patch". Never freed.
    pub fn weir_version_string() -> *const ::core::ffi::c_char;
}
extern "C" {
    /// Library version as one number, to be compared: major * 1000000 + minor * 1000 + patch.
    pub fn weir_version_number() -> u32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_context_s {
    _unused: [u8; 0],
}
/// Handles: opaque; created and destroyed by the functions of their own header.
pub type weir_context = *mut weir_context_s;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_pool_s {
    _unused: [u8; 0],
}
pub type weir_pool = *mut weir_pool_s;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_client_s {
    _unused: [u8; 0],
}
pub type weir_client = *mut weir_client_s;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_buffer_s {
    _unused: [u8; 0],
}
pub type weir_buffer = *mut weir_buffer_s;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_stream_s {
    _unused: [u8; 0],
}
pub type weir_stream = *mut weir_stream_s;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_lease_s {
    _unused: [u8; 0],
}
pub type weir_lease = *mut weir_lease_s;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_request_s {
    _unused: [u8; 0],
}
pub type weir_request = *mut weir_request_s;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_arena_s {
    _unused: [u8; 0],
}
pub type weir_arena = *mut weir_arena_s;
/**A place with memory: an index of weir_device_count(), or WEIR_DEVICE_HOST for the CPU's own memory. Numbers from
0xffffff00 on are no device's.*/
pub type weir_device = u32;
pub const WEIR_TIER_NONE: _bindgen_ty_2 = 0;
pub const WEIR_TIER_DEVICE: _bindgen_ty_2 = 1;
pub const WEIR_TIER_PEER: _bindgen_ty_2 = 2;
pub const WEIR_TIER_HOST: _bindgen_ty_2 = 3;
pub const WEIR_TIER_COMPRESSED: _bindgen_ty_2 = 4;
pub const WEIR_TIER_STORAGE: _bindgen_ty_2 = 5;
/// The tiers. Their numbers are not their order: a later version may put a tier in between.
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
/// found out by looking
pub const WEIR_ELEMENT_ANY: _bindgen_ty_3 = 0;
pub const WEIR_ELEMENT_F16: _bindgen_ty_3 = 1;
pub const WEIR_ELEMENT_BF16: _bindgen_ty_3 = 2;
pub const WEIR_ELEMENT_F32: _bindgen_ty_3 = 3;
pub const WEIR_ELEMENT_F64: _bindgen_ty_3 = 4;
/// What a buffer's bytes are: knowing it, the codec compresses better; the bytes never change.
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
/// The numbers behind the thread's last error. Fields that do not apply are 0, but for `device` and `use_index`.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_error_info {
    pub struct_size: u32,
    /// the error these numbers belong to
    pub result: weir_result,
    /// WEIR_TIER_* that was short
    pub tier: u32,
    /// the device concerned, or WEIR_DEVICE_HOST; that too where none is
    pub device: weir_device,
    /// bytes asked for, rounded as they would be charged
    pub asked: u64,
    /// bytes that could have been had
    pub available: u64,
    /// asked - available, where that is the reason
    pub short_by: u64,
    /// which element of uses[], where one is to blame; else UINT64_MAX
    pub use_index: u64,
    /// the runtime's or the system's own code
    pub native_code: i64,
}
#[test]
fn bindgen_test_layout_weir_error_info() {
    const UNINIT: ::core::mem::MaybeUninit<weir_error_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_error_info>(),
        56usize,
        "Size of weir_error_info",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_error_info>(),
        8usize,
        "Alignment of weir_error_info",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_error_info::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).result) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_error_info::result",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).tier) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_error_info::tier",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        12usize,
        "Offset of field: weir_error_info::device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).asked) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_error_info::asked",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).available) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_error_info::available",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).short_by) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_error_info::short_by",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).use_index) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_error_info::use_index",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).native_code) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_error_info::native_code",
    );
}
extern "C" {
    /// The calling thread's last error in one sentence, "" if there was none. Valid until the thread's next call.
    pub fn weir_last_error() -> *const ::core::ffi::c_char;
}
extern "C" {
    /**The rest of the calling thread's last error, for people, in lines of UTF-8: the sentence, and if a pool has refused a call (OVER_BUDGET,
DEVICE_OOM, WOULD_BLOCK, TIMEOUT, LEASE_CONFLICT, DATA_LOST) what the tier that was short has now, the five buffers with most
of it, by name, held, leased or not in use, and what to do. Made when it is asked for, from what the pool is then; of a pool that has
ended, and in a child of fork(), it is the sentence alone. It looks at all buffers, as weir_pool_snapshot does; meanwhile
no context or pool of the process is made or ended, and no stream of that pool's context is closed. Writes at most `capacity` bytes, always NUL-terminated if capacity > 0; *needed (may be NULL) gets
the full size with the NUL (a later call's may be another). INCOMPLETE if it was cut; `text` may be NULL with a capacity of 0. "" if
there was no error. Any thread, for its own error; this call changes no error. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY.*/
    pub fn weir_last_error_report(
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        needed: *mut usize,
    ) -> weir_result;
}
extern "C" {
    /// Copies the numbers of the calling thread's last error into *info (bounded by info->struct_size).
    pub fn weir_last_error_info(info: *mut weir_error_info) -> weir_result;
}
/**Host memory for Weir's own bookkeeping. Both functions or neither; `user` is given to them as it is. Called from any thread, also concurrently;
must not call Weir. Buffers' contents never come from here.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_allocator {
    /// NULL = out of memory
    pub allocate: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            size: usize,
            alignment: usize,
        ) -> *mut ::core::ffi::c_void,
    >,
    /// what `allocate` gave, with its size and alignment
    pub deallocate: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            memory: *mut ::core::ffi::c_void,
            size: usize,
            alignment: usize,
        ),
    >,
    /// goes with both
    pub user: *mut ::core::ffi::c_void,
    /// NULL
    pub reserved: [*mut ::core::ffi::c_void; 3usize],
}
#[test]
fn bindgen_test_layout_weir_allocator() {
    const UNINIT: ::core::mem::MaybeUninit<weir_allocator> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_allocator>(),
        48usize,
        "Size of weir_allocator",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_allocator>(),
        8usize,
        "Alignment of weir_allocator",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).allocate) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_allocator::allocate",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).deallocate) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_allocator::deallocate",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).user) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_allocator::user",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_allocator::reserved",
    );
}
pub const WEIR_LOG_ERROR: _bindgen_ty_4 = 0;
pub const WEIR_LOG_WARNING: _bindgen_ty_4 = 1;
pub const WEIR_LOG_INFO: _bindgen_ty_4 = 2;
pub const WEIR_LOG_DEBUG: _bindgen_ty_4 = 3;
/// Levels of what is logged.
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
/**Receives one line without a line end. Runs on any thread, never while a lock of Weir is held; it may
call weir_last_error and nothing else. `text` is valid during the call only.*/
pub type weir_log_callback = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        level: i32,
        text: *const ::core::ffi::c_char,
    ),
>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_backend_table {
    _unused: [u8; 0],
}
/// A backend's entry point, see weir/backend.h.
pub type weir_backend_query_fn = ::core::option::Option<
    unsafe extern "C" fn(abi_major: u32) -> *const weir_backend_table,
>;
/**Objects of the program that a backend is to use in place of its own: an engine's VkDevice and queues, a cl_context. Which there are is
in the backend's own header (weir/vulkan.h, weir/opencl.h).*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_native {
    /// the backend's name: "vulkan"
    pub backend: *const ::core::ffi::c_char,
    /**A struct of the backend's header. It begins with two uint32_t: its size, and the kind that it is of. It is copied; what it
refers to is the program's, and lives as that header says.*/
    pub handles: *const ::core::ffi::c_void,
}
#[test]
fn bindgen_test_layout_weir_native() {
    const UNINIT: ::core::mem::MaybeUninit<weir_native> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(::core::mem::size_of::<weir_native>(), 16usize, "Size of weir_native");
    assert_eq!(
        ::core::mem::align_of::<weir_native>(),
        8usize,
        "Alignment of weir_native",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).backend) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_native::backend",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).handles) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_native::handles",
    );
}
/// What a context is made with.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_context_desc {
    pub struct_size: u32,
    /// entries of `backends`
    pub backend_count: u32,
    /// WEIR_CONTEXT_*
    pub flags: u64,
    /// further backends linked into the program; tried after the built-in host one
    pub backends: *const weir_backend_query_fn,
    /**NULL-terminated list of backend libraries to load by path; NULL = only those of the search folder (below). A file
that every user may write to, or that lies in such a folder, is refused.*/
    pub backend_paths: *const *const ::core::ffi::c_char,
    /**Options for backends, "backend.key=value" joined by ';', e.g. "host.devices=2;host.memory=1G", and of the context
itself, "topology.key=value". The keys are in docs/host-backend.md, cuda.md, hip.md, level-zero.md, vulkan.md and topology.md. NULL reads the environment variable WEIR_OPTIONS (ignored
under secure execution); given ones win over it, and a WARNING says so where it is set to something else. Unknown keys, and options of a backend that is not loaded, are an error that names them.*/
    pub options: *const ::core::ffi::c_char,
    /// all NULL = malloc/free
    pub allocator: weir_allocator,
    /**NULL = the environment variable WEIR_LOG decides: lines of the level it names
(error, warning, info, debug) and worse go to stderr; set to something
else it means warning, not set nothing*/
    pub log: weir_log_callback,
    /// goes with `log`
    pub log_user: *mut ::core::ffi::c_void,
    /**How long a backend's runtime may take to start; 0 = 60 s. One that takes longer is given up: it is not available,
and a thread of it may stay behind in the runtime until the process ends.*/
    pub start_timeout_ns: u64,
    /**What the program has of a runtime already, at most one entry for each backend. One that is not loaded, takes no such objects, or
can't work with these is an error of weir_context_create that says what is missing: it never makes its own instead. NULL = none.*/
    pub natives: *const weir_native,
    /// entries of `natives`
    pub native_count: u32,
    /// 0
    pub reserved: u32,
}
#[test]
fn bindgen_test_layout_weir_context_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_context_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_context_desc>(),
        128usize,
        "Size of weir_context_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_context_desc>(),
        8usize,
        "Alignment of weir_context_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_context_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).backend_count) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_context_desc::backend_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_context_desc::flags",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).backends) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_context_desc::backends",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).backend_paths) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_context_desc::backend_paths",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).options) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_context_desc::options",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).allocator) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_context_desc::allocator",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).log) as usize - ptr as usize },
        88usize,
        "Offset of field: weir_context_desc::log",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).log_user) as usize - ptr as usize },
        96usize,
        "Offset of field: weir_context_desc::log_user",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).start_timeout_ns) as usize - ptr as usize
        },
        104usize,
        "Offset of field: weir_context_desc::start_timeout_ns",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).natives) as usize - ptr as usize },
        112usize,
        "Offset of field: weir_context_desc::natives",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).native_count) as usize - ptr as usize },
        120usize,
        "Offset of field: weir_context_desc::native_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        124usize,
        "Offset of field: weir_context_desc::reserved",
    );
}
/// Do not offer the built-in host backend.
pub const WEIR_CONTEXT_NO_HOST_BACKEND: _bindgen_ty_5 = 1;
/**Do not load libweir_backend_*.so from the search folder: "weir/1" (1: WEIR_BACKEND_ABI_MAJOR), beside libweir (or beside the program that
libweir is linked into).*/
pub const WEIR_CONTEXT_NO_SEARCH: _bindgen_ty_5 = 2;
/**Keep the call stack of each weir_buffer_create and weir_malloc: the innermost 32 calls, each distinct stack once, in some 64 MiB
(what has no room is counted). Reports, snapshots and the lines about what was not destroyed show them. It makes those two
calls some microseconds slower. WEIR_STACKS=1 in the environment does the same.*/
pub const WEIR_CONTEXT_STACKS: _bindgen_ty_5 = 4;
/// Flags of a context.
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
extern "C" {
    /**Loads the backends and finds the devices. `desc` may be NULL: all defaults. A backend that can't start is not an
error: see weir_backend_info. The caller owns *context. It may take as long as the runtimes take to start, which is
seconds with some drivers. Errors: INVALID_ARGUMENT (also: `natives` of a kind that the backend does not know, or of a backend
that is not there), OUT_OF_HOST_MEMORY, NOT_SUPPORTED (`natives` of a backend that takes none), BACKEND (a backend named in the
descriptor is no backend, is refused, or can't work with the `natives` that are for it).*/
    pub fn weir_context_create(
        desc: *const weir_context_desc,
        context: *mut weir_context,
    ) -> weir_result;
}
extern "C" {
    /// Ends the context. BUSY while pools or streams of it exist (nothing is changed then). NULL is allowed.
    pub fn weir_context_destroy(context: weir_context) -> weir_result;
}
/// What became of one backend. Strings live as long as the context and are never NULL.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_backend_info {
    pub struct_size: u32,
    /// 1 = it started; 0 = see `reason`
    pub available: u32,
    /// 0 if it is not available
    pub device_count: u32,
    /// its devices are first_device .. first_device + device_count - 1
    pub first_device: u32,
    /// "host", "cuda", ...
    pub name: *const ::core::ffi::c_char,
    /// of the runtime found, "" if none
    pub version: *const ::core::ffi::c_char,
    /// why it is not available, "" if it is
    pub reason: *const ::core::ffi::c_char,
    /// the library it came from, "built-in" for the host backend, "linked" for `backends`
    pub path: *const ::core::ffi::c_char,
}
#[test]
fn bindgen_test_layout_weir_backend_info() {
    const UNINIT: ::core::mem::MaybeUninit<weir_backend_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_backend_info>(),
        48usize,
        "Size of weir_backend_info",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_backend_info>(),
        8usize,
        "Alignment of weir_backend_info",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_backend_info::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).available) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_backend_info::available",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_count) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_backend_info::device_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).first_device) as usize - ptr as usize },
        12usize,
        "Offset of field: weir_backend_info::first_device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).name) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_backend_info::name",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).version) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_backend_info::version",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reason) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_backend_info::reason",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).path) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_backend_info::path",
    );
}
extern "C" {
    /// How many backends were found, also those that are not available. It does not change while the context lives.
    pub fn weir_backend_count(context: weir_context, count: *mut u32) -> weir_result;
}
extern "C" {
    /// Errors: INVALID_ARGUMENT (`index` is not below the count).
    pub fn weir_backend_info_get(
        context: weir_context,
        index: u32,
        info: *mut weir_backend_info,
    ) -> weir_result;
}
/// What a device is.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_device_info {
    pub struct_size: u32,
    /// index for weir_backend_info_get
    pub backend: u32,
    /// WEIR_CAP_*
    pub capabilities: u64,
    /// bytes
    pub memory_total: u64,
    /// bytes, at the time of the call, as the runtime tells them
    pub memory_free: u64,
    /// smallest physical unit in bytes, 0 without VMM
    pub granule: u64,
    /// the system's number; the backend's word, else the topology's; UINT32_MAX if unknown
    pub numa_node: u32,
    pub reserved: u32,
    /// for people; ends within its field
    pub name: [::core::ffi::c_char; 64usize],
    /// "0000:17:00.0", "" if there is none
    pub pci_address: [::core::ffi::c_char; 32usize],
    /// the runtime's, all 0 if it tells none
    pub uuid: [u8; 16usize],
    /**Partitions (tiles, MIG slices, CPX) of one card are devices with the same `parent`: the least of their numbers.
A device that is no partition has its own number. Devices of two backends at one address are one device, no partitions.*/
    pub parent: weir_device,
    /// which of the card's partitions it is, from 0, in the order of the runtime
    pub partition: u32,
    /// how many of them its backend offers; 1 = it is the whole card, as far as is known
    pub partition_count: u32,
    pub reserved2: u32,
}
#[test]
fn bindgen_test_layout_weir_device_info() {
    const UNINIT: ::core::mem::MaybeUninit<weir_device_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_device_info>(),
        176usize,
        "Size of weir_device_info",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_device_info>(),
        8usize,
        "Alignment of weir_device_info",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_device_info::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).backend) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_device_info::backend",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).capabilities) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_device_info::capabilities",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).memory_total) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_device_info::memory_total",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).memory_free) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_device_info::memory_free",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).granule) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_device_info::granule",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).numa_node) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_device_info::numa_node",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        44usize,
        "Offset of field: weir_device_info::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).name) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_device_info::name",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).pci_address) as usize - ptr as usize },
        112usize,
        "Offset of field: weir_device_info::pci_address",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).uuid) as usize - ptr as usize },
        144usize,
        "Offset of field: weir_device_info::uuid",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).parent) as usize - ptr as usize },
        160usize,
        "Offset of field: weir_device_info::parent",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).partition) as usize - ptr as usize },
        164usize,
        "Offset of field: weir_device_info::partition",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).partition_count) as usize - ptr as usize },
        168usize,
        "Offset of field: weir_device_info::partition_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved2) as usize - ptr as usize },
        172usize,
        "Offset of field: weir_device_info::reserved2",
    );
}
extern "C" {
    /**How many devices there are: weir_device is an index below it. Neither changes while the context lives; a device that
is lost keeps its index.*/
    pub fn weir_device_count(context: weir_context, count: *mut u32) -> weir_result;
}
extern "C" {
    /**Asks the runtime for the free memory, which takes microseconds and, at a vendor's first call, may set its device up.
Errors: INVALID_ARGUMENT (no such device; WEIR_DEVICE_HOST is none), DEVICE_LOST, BACKEND.*/
    pub fn weir_device_info_get(
        context: weir_context,
        device: weir_device,
        info: *mut weir_device_info,
    ) -> weir_result;
}
extern "C" {
    /**The device that a text means. The caller gives `wish`, or lets the program's user give it: NULL or "" is the environment
variable WEIR_DEVICE (ignored under secure execution), and "gpu" where that is not set. A wish is one of
"gpu"              of the devices of all backends but "host" the one with the most free memory at that moment
"gpu:1"            the second of them in the order of their numbers, whatever its memory; a card that two backends
offer counts once, as the first's
"cuda", "host"     of that backend's devices the one with the most free memory
"cuda:0"           the first of that backend
"GPU-5a1c...", "MIG-..."  the device with this UUID, as the vendor's tools write it; the prefix and dashes may be left out
"0000:17:00.0"     the device at this PCI address; the domain may be left out. Of several partitions the one with the
most free memory
or several of them with commas between: the first that is met counts, so "gpu,host" takes the host's memory only where
there is no GPU. A device that is lost meets no wish that leaves a choice ("gpu", "cuda"), and is what "cuda:0" means all
the same. Capitals do not matter. What was taken is logged as INFO, as WARNING if it was not the first of several.
It asks the runtimes for the free memory (weir_device_info_get). May be called from any thread.
Errors, which leave *device as it is: INVALID_ARGUMENT (none is met: the message lists what there is, and why backends are
not available; or one of the list, even behind the one that is met, has no such form).*/
    pub fn weir_device_find(
        context: weir_context,
        wish: *const ::core::ffi::c_char,
        device: *mut weir_device,
    ) -> weir_result;
}
pub const WEIR_LINK_NONE: _bindgen_ty_6 = 0;
pub const WEIR_LINK_SAME: _bindgen_ty_6 = 1;
pub const WEIR_LINK_PCIE: _bindgen_ty_6 = 2;
pub const WEIR_LINK_NVLINK: _bindgen_ty_6 = 3;
pub const WEIR_LINK_INFINITY_FABRIC: _bindgen_ty_6 = 4;
pub const WEIR_LINK_XE: _bindgen_ty_6 = 5;
pub const WEIR_LINK_MEMORY: _bindgen_ty_6 = 6;
/// between the chips of one package, as a GPU and its CPU
pub const WEIR_LINK_C2C: _bindgen_ty_6 = 7;
/// to another machine
pub const WEIR_LINK_NETWORK: _bindgen_ty_6 = 8;
/// Kinds of links.
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
/// it is unknown
pub const WEIR_LINK_FIGURE_NONE: _bindgen_ty_7 = 0;
/// derived: the least PCIe generation times lanes on the way
pub const WEIR_LINK_FIGURE_PCIE: _bindgen_ty_7 = 1;
/// the machine's topology, or a file of it, gives it
pub const WEIR_LINK_FIGURE_TOPOLOGY: _bindgen_ty_7 = 2;
/// the backend reports it
pub const WEIR_LINK_FIGURE_BACKEND: _bindgen_ty_7 = 3;
/// it was measured here
pub const WEIR_LINK_FIGURE_MEASURED: _bindgen_ty_7 = 4;
/// Where a link's bandwidth is from. The numbers are not an order.
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
/// What lies between two places.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_link_info {
    pub struct_size: u32,
    /// WEIR_LINK_*
    pub kind: u32,
    /// bytes a second one way, 0 = unknown
    pub bandwidth: u64,
    /// 0 = unknown
    pub latency_ns: u64,
    /// links in a row between the two; 0 from a device to itself
    pub hops: u32,
    /// 1 = copies need no host staging
    pub direct: u32,
    /// of `bandwidth`: WEIR_LINK_FIGURE_*
    pub source: u32,
    /// of `reported_bandwidth`: WEIR_LINK_FIGURE_*, never MEASURED
    pub reported_source: u32,
    /// what `bandwidth` is where nothing is measured, 0 = unknown
    pub reported_bandwidth: u64,
    /**How many partitions of one card (weir_device_info.partition_count) have this link in common, so that its bandwidth is
theirs together: a partition's links to the host and to other cards are the card's. 1 = it is the two ends' own. Of
two partitioned ends the greater count.*/
    pub shared_with: u32,
    pub reserved: u32,
}
#[test]
fn bindgen_test_layout_weir_link_info() {
    const UNINIT: ::core::mem::MaybeUninit<weir_link_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_link_info>(),
        56usize,
        "Size of weir_link_info",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_link_info>(),
        8usize,
        "Alignment of weir_link_info",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_link_info::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).kind) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_link_info::kind",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).bandwidth) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_link_info::bandwidth",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).latency_ns) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_link_info::latency_ns",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).hops) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_link_info::hops",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).direct) as usize - ptr as usize },
        28usize,
        "Offset of field: weir_link_info::direct",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).source) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_link_info::source",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reported_source) as usize - ptr as usize },
        36usize,
        "Offset of field: weir_link_info::reported_source",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).reported_bandwidth) as usize - ptr as usize
        },
        40usize,
        "Offset of field: weir_link_info::reported_bandwidth",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).shared_with) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_link_info::shared_with",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        52usize,
        "Offset of field: weir_link_info::reserved",
    );
}
extern "C" {
    /**The path between two places; either may be WEIR_DEVICE_HOST. It is what the backend reports, and where that leaves
something open what the machine's topology tells (docs/topology.md); figures that weir_topology_calibrate measured, now
or in an earlier run whose cache file the context's first such call reads, come before both. Between devices of two backends copies are never
direct; two devices of one PCI address are the SAME. Where nothing is known the kind is NONE. The first call about a
device with a PCI address may look at the machine, which takes some milliseconds to tenths of a second. Errors:
INVALID_ARGUMENT, DEVICE_LOST, BACKEND.*/
    pub fn weir_link_info_get(
        context: weir_context,
        from: weir_device,
        to: weir_device,
        info: *mut weir_link_info,
    ) -> weir_result;
}
extern "C" {
    /**The runtime's own object behind an address that a lease, weir_hold, weir_malloc or weir_pool_map gave on `device`, for interfaces that
take objects and offsets in place of addresses: a VkBuffer. `kind` says which struct of the backend's header `out` points to; it begins
with its size, a uint32_t that the caller sets (its *_INIT macro). What is told holds for as long as the address does, and the object
stays Weir's. Any thread; nothing waits. Errors: INVALID_ARGUMENT (no such device, no memory of the device at `address` as far as
the backend can tell, a kind or size that it does not know), NOT_SUPPORTED (the device lacks WEIR_CAP_NATIVE_MEMORY:
its addresses are what its interfaces take; or WEIR_DEVICE_HOST), DEVICE_LOST, BACKEND.*/
    pub fn weir_native_memory(
        context: weir_context,
        device: weir_device,
        address: u64,
        kind: u32,
        out: *mut ::core::ffi::c_void,
    ) -> weir_result;
}
extern "C" {
    /**Creates a native stream on `device` and wraps it. `device` may be WEIR_DEVICE_HOST: leases on that
stream give CPU addresses and are ordered by the calling thread itself; or WEIR_DEVICE_DEFAULT, the context's first
device. `flags` must be 0. The caller owns *stream and ends it with weir_stream_close. Errors: INVALID_ARGUMENT,
NOT_SUPPORTED (too many streams), OUT_OF_HOST_MEMORY, DEVICE_OOM, DEVICE_LOST, BACKEND.*/
    pub fn weir_stream_create(
        context: weir_context,
        device: weir_device,
        flags: u64,
        stream: *mut weir_stream,
    ) -> weir_result;
}
extern "C" {
    /**Wraps a stream of the runtime: CUstream, hipStream_t, an in-order Level Zero command list, or what
weir_stream_native gave. Where a runtime's queue is more than a handle, `native` points to a struct of the backend's header, which
is copied. NULL is the runtime's default stream, where it has one (CUDA, HIP: the legacy default
stream). A stream that means another queue on each thread (CUDA's CU_STREAM_PER_THREAD) may be used through the
wrapper on the wrapping thread only. The native stream stays the caller's and must outlive the wrapper; the
wrapper is the caller's too. `flags` must be 0. In which runtime's context the stream must be is in docs/cuda.md,
hip.md and level-zero.md. Errors: INVALID_ARGUMENT (also: no stream of this device, as far as its runtime can tell),
NOT_SUPPORTED (WEIR_DEVICE_HOST has no native streams; too many streams), DEVICE_LOST, BACKEND.*/
    pub fn weir_stream_wrap(
        context: weir_context,
        device: weir_device,
        native: *mut ::core::ffi::c_void,
        flags: u64,
        stream: *mut weir_stream,
    ) -> weir_result;
}
extern "C" {
    /**Closes the wrapper, and ends the native stream if weir_stream_create made it; call it before a native stream of your
own is destroyed. It does not wait: work already enqueued is finished, and waited for wherever Weir depends on it.
Errors: BUSY while leases taken on it are unreleased (nothing is changed then), INVALID_HANDLE. NULL is allowed.*/
    pub fn weir_stream_close(stream: weir_stream) -> weir_result;
}
extern "C" {
    /**The runtime's own handle, as weir_stream_wrap takes it; its owner stays the same. Errors: NOT_SUPPORTED (a stream of
WEIR_DEVICE_HOST has none), INVALID_HANDLE.*/
    pub fn weir_stream_native(
        stream: weir_stream,
        native: *mut *mut ::core::ffi::c_void,
    ) -> weir_result;
}
extern "C" {
    /**Blocks the thread until everything enqueued on the stream so far has finished; returns at once on a stream of
WEIR_DEVICE_HOST. Errors: INVALID_HANDLE, STREAM_CAPTURING, DEVICE_LOST, BACKEND.*/
    pub fn weir_stream_synchronize(stream: weir_stream) -> weir_result;
}
extern "C" {
    /**WEIR_SUCCESS when everything enqueued so far has finished, WEIR_NOT_READY otherwise; never blocks. Errors: as
weir_stream_synchronize.*/
    pub fn weir_stream_query(stream: weir_stream) -> weir_result;
}
/// What weir_stream_host_call runs. It must not call Weir or the runtime, nor throw.
pub type weir_host_function = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void),
>;
extern "C" {
    /**Enqueues function(user), to run on a CPU thread in stream order; `user` stays the caller's and must live until then.
On the host backend this is how "kernels" run. Functions of different streams may run one after another: while one blocks,
those of the device's other streams may have to wait (CUDA runs them on one thread). Errors: INVALID_ARGUMENT, NOT_SUPPORTED (the
device lacks WEIR_CAP_HOST_CALL), STREAM_CAPTURING, DEVICE_LOST, BACKEND.*/
    pub fn weir_stream_host_call(
        stream: weir_stream,
        function: weir_host_function,
        user: *mut ::core::ffi::c_void,
    ) -> weir_result;
}
extern "C" {
    /// "nvlink" for WEIR_LINK_NVLINK; never NULL, also for unknown values ("unknown"). Never freed.
    pub fn weir_link_kind_string(kind: u32) -> *const ::core::ffi::c_char;
}
extern "C" {
    /// "measured" for WEIR_LINK_FIGURE_MEASURED; never NULL, also for unknown values ("unknown"). Never freed.
    pub fn weir_link_figure_string(source: u32) -> *const ::core::ffi::c_char;
}
/// places, devices and links; bandwidths in bytes a second one way, latencies in ns
pub const WEIR_TOPOLOGY_JSON: _bindgen_ty_8 = 0;
/// a tree, a matrix of links with GB/s (10^9 bytes), a legend; for people
pub const WEIR_TOPOLOGY_TEXT: _bindgen_ty_8 = 1;
/// a picture: a document of its own, without scripts
pub const WEIR_TOPOLOGY_SVG: _bindgen_ty_8 = 2;
/// What weir_topology_export writes.
pub type _bindgen_ty_8 = ::core::ffi::c_uint;
extern "C" {
    /**Writes the machine with the context's devices in it: at most `capacity` bytes, always NUL-terminated if capacity > 0.
*needed (may be NULL) gets the full size with the NUL. INCOMPLETE if it was cut; `text` may be NULL with a capacity
of 0. The first call may look at the machine, which takes some milliseconds to tenths of a second; where
that fails, the machine is the devices alone. Devices of the machine that no backend offers are in it too.*/
    pub fn weir_topology_export(
        context: weir_context,
        format: u32,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        needed: *mut usize,
    ) -> weir_result;
}
/// measure for this context only: write nothing to the cache
pub const WEIR_CALIBRATE_NO_CACHE: _bindgen_ty_9 = 1;
/// Flags of weir_topology_calibrate.
pub type _bindgen_ty_9 = ::core::ffi::c_uint;
/// How long, and with how much memory, to measure.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_calibrate_desc {
    pub struct_size: u32,
    /// 0
    pub reserved: u32,
    /// WEIR_CALIBRATE_*
    pub flags: u64,
    /**Nanoseconds for all links together, which share them; 0 = 5 s. It is kept to within some small copies on each link,
and what runtimes take to give memory. Links that there is no time for are left as they are.*/
    pub max_ns: u64,
    /**Bytes of memory that may be held at once, half of them at each end of the link being measured: on a device, and
pinned on the host or on another device. 0 = 64 MiB; at least 128 KiB. Less is used where there is no room.*/
    pub max_bytes: u64,
}
#[test]
fn bindgen_test_layout_weir_calibrate_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_calibrate_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_calibrate_desc>(),
        32usize,
        "Size of weir_calibrate_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_calibrate_desc>(),
        8usize,
        "Alignment of weir_calibrate_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_calibrate_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_calibrate_desc::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_calibrate_desc::flags",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).max_ns) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_calibrate_desc::max_ns",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).max_bytes) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_calibrate_desc::max_bytes",
    );
}
/// What became of the links; each way of a link counts as one.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_calibrate_report {
    pub struct_size: u32,
    /// have a figure of this call
    pub measured: u32,
    /// a call of the backend failed (the log says which); they keep the figure that they had
    pub failed: u32,
    /// the time was up; they keep the figure that they had
    pub skipped: u32,
    /// files written to the cache, one a backend
    pub saved: u32,
    pub reserved: u32,
    /// of the call
    pub elapsed_ns: u64,
    /**The folder of the cache. "" if the context has none: topology.cache=0, a rehearsed machine, no home in the
environment. Lives as long as the context; never NULL.*/
    pub folder: *const ::core::ffi::c_char,
}
#[test]
fn bindgen_test_layout_weir_calibrate_report() {
    const UNINIT: ::core::mem::MaybeUninit<weir_calibrate_report> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_calibrate_report>(),
        40usize,
        "Size of weir_calibrate_report",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_calibrate_report>(),
        8usize,
        "Alignment of weir_calibrate_report",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_calibrate_report::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).measured) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_calibrate_report::measured",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).failed) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_calibrate_report::failed",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).skipped) as usize - ptr as usize },
        12usize,
        "Offset of field: weir_calibrate_report::skipped",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).saved) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_calibrate_report::saved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        20usize,
        "Offset of field: weir_calibrate_report::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).elapsed_ns) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_calibrate_report::elapsed_ns",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).folder) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_calibrate_report::folder",
    );
}
extern "C" {
    /**Measures bandwidth and latency of every link between a device and the host, and between two devices of one backend
that reach each other directly, by copies on streams and memory of its own: one link and one way at a time, on this
thread, which waits. All that it takes is given back, whatever fails. The figures count at once in this context
(weir_link_info_get, weir_topology_export), before all others, and are saved for later contexts on this machine with
the same devices, driver and options of the backend (docs/topology.md). A latency is what a small copy takes from
being enqueued to being waited for. Whatever else copies or computes meanwhile makes figures worse.

`desc` may be NULL: all defaults. `report` may be NULL; else it is written on success and on IO. That links fail is no
error. Errors: INVALID_ARGUMENT, INVALID_HANDLE, BUSY (another thread is calibrating this context), IO (links were
measured and count in this context, but cannot be saved; the message names the path), OUT_OF_HOST_MEMORY.*/
    pub fn weir_topology_calibrate(
        context: weir_context,
        desc: *const weir_calibrate_desc,
        report: *mut weir_calibrate_report,
    ) -> weir_result;
}
/// near the speed of memory: what a pool does when a page leaves HOST
pub const WEIR_COMPRESS_LEVEL_FAST: _bindgen_ty_10 = 0;
/// entropy coded too: several times slower, for what stays where it goes
pub const WEIR_COMPRESS_LEVEL_DENSE: _bindgen_ty_10 = 1;
/// How much time a blob is worth.
pub type _bindgen_ty_10 = ::core::ffi::c_uint;
/// no checksums in the blob: for callers that have one of their own
pub const WEIR_COMPRESS_NO_CHECKSUM: _bindgen_ty_11 = 1;
/// Flags of weir_compress.
pub type _bindgen_ty_11 = ::core::ffi::c_uint;
/// one pattern of 8 bytes
pub const WEIR_CODEC_SAME: _bindgen_ty_12 = 1;
/// as it is
pub const WEIR_CODEC_RAW: _bindgen_ty_12 = 2;
pub const WEIR_CODEC_LZ4: _bindgen_ty_12 = 3;
pub const WEIR_CODEC_ZSTD: _bindgen_ty_12 = 4;
/// floats: exponents as places in a window
pub const WEIR_CODEC_FX: _bindgen_ty_12 = 5;
/// a bitmap of zeros, and the rest
pub const WEIR_CODEC_SPARSE: _bindgen_ty_12 = 6;
/// two values of bytes, a bit each
pub const WEIR_CODEC_MASK: _bindgen_ty_12 = 7;
/// byte planes, each entropy coded
pub const WEIR_CODEC_PLANES: _bindgen_ty_12 = 8;
/// floats of four bytes that fit into two
pub const WEIR_CODEC_NARROW: _bindgen_ty_12 = 9;
/// The methods a block can be coded by; the numbers stand in blobs.
pub type _bindgen_ty_12 = ::core::ffi::c_uint;
/// How to compress. NULL in its place means all defaults.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_compress_desc {
    pub struct_size: u32,
    /// WEIR_COMPRESS_LEVEL_FAST or _DENSE
    pub level: u32,
    /// WEIR_ELEMENT_*: what the bytes are, if it is known; a wrong one costs nothing but ratio
    pub element: u32,
    pub reserved: u32,
    /**"auto" (NULL): what pays; else the one method to use where it pays: "lz4", "zstd", "fx", "sparse",
"mask", "planes", "narrow"; "raw"*/
    pub codec: *const ::core::ffi::c_char,
    /// WEIR_COMPRESS_NO_CHECKSUM
    pub flags: u64,
}
#[test]
fn bindgen_test_layout_weir_compress_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_compress_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_compress_desc>(),
        32usize,
        "Size of weir_compress_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_compress_desc>(),
        8usize,
        "Alignment of weir_compress_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_compress_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).level) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_compress_desc::level",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).element) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_compress_desc::element",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        12usize,
        "Offset of field: weir_compress_desc::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).codec) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_compress_desc::codec",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_compress_desc::flags",
    );
}
extern "C" {
    /// The most bytes a blob of so many raw bytes can have; 0 if there can be none (more than 2^50).
    pub fn weir_compress_bound(bytes: u64) -> u64;
}
extern "C" {
    /**Compresses `bytes` bytes at `in` (0 .. 2^50; may be any alignment, elements start with the first byte) into a blob at
`out`, which has room for `capacity` >= weir_compress_bound(bytes) and does not overlap; *blob_bytes is its length. `desc` may be
NULL: all defaults. If it fails, what is at `out` is undefined and *blob_bytes is 0.
Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY.*/
    pub fn weir_compress(
        desc: *const weir_compress_desc,
        in_: *const ::core::ffi::c_void,
        bytes: u64,
        out: *mut ::core::ffi::c_void,
        capacity: u64,
        blob_bytes: *mut u64,
    ) -> weir_result;
}
extern "C" {
    /**The reverse: exactly the bytes that were compressed, *bytes of them (may be NULL), or an error and undefined bytes in `out`, of
which nothing beyond `capacity` is written whatever the blob holds. weir_compressed_info_get says how many there are.
Errors: CORRUPT (the blob is malformed or its checksums do not fit), INVALID_ARGUMENT (`capacity` is less than its raw
bytes), OUT_OF_HOST_MEMORY.*/
    pub fn weir_decompress(
        blob: *const ::core::ffi::c_void,
        blob_bytes: u64,
        out: *mut ::core::ffi::c_void,
        capacity: u64,
        bytes: *mut u64,
    ) -> weir_result;
}
/// Of the blocks of one method, or of elements of one kind.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_codec_share {
    /// before
    pub raw_bytes: u64,
    /// after
    pub coded_bytes: u64,
}
#[test]
fn bindgen_test_layout_weir_codec_share() {
    const UNINIT: ::core::mem::MaybeUninit<weir_codec_share> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_codec_share>(),
        16usize,
        "Size of weir_codec_share",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_codec_share>(),
        8usize,
        "Alignment of weir_codec_share",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).raw_bytes) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_codec_share::raw_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).coded_bytes) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_codec_share::coded_bytes",
    );
}
/// What a blob is.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_compressed_info {
    pub struct_size: u32,
    /// of the format
    pub version: u32,
    /// what comes out
    pub raw_bytes: u64,
    /// raw bytes of every block but the last
    pub block_bytes: u64,
    /// how many
    pub blocks: u64,
    /// 1: it has them
    pub checksums: u64,
    /// by WEIR_CODEC_*; what they do not add up to is header and table
    pub methods: [weir_codec_share; 32usize],
}
#[test]
fn bindgen_test_layout_weir_compressed_info() {
    const UNINIT: ::core::mem::MaybeUninit<weir_compressed_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_compressed_info>(),
        552usize,
        "Size of weir_compressed_info",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_compressed_info>(),
        8usize,
        "Alignment of weir_compressed_info",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_compressed_info::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).version) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_compressed_info::version",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).raw_bytes) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_compressed_info::raw_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).block_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_compressed_info::block_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).blocks) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_compressed_info::blocks",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).checksums) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_compressed_info::checksums",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).methods) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_compressed_info::methods",
    );
}
extern "C" {
    /// What a blob's header and table tell; the blocks are not looked at. Errors: CORRUPT, INVALID_ARGUMENT.
    pub fn weir_compressed_info_get(
        blob: *const ::core::ffi::c_void,
        blob_bytes: u64,
        info: *mut weir_compressed_info,
    ) -> weir_result;
}
/// One device of a pool. Fixed size: 32 bytes.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_pool_device {
    /// one of the context's
    pub device: weir_device,
    pub reserved0: u32,
    /**bytes of its memory the pool may hold; rounded down to granules. More than it has is allowed, with a
WARNING, but for WEIR_UNLIMITED*/
    pub budget: u64,
    pub reserved: [u64; 2usize],
}
#[test]
fn bindgen_test_layout_weir_pool_device() {
    const UNINIT: ::core::mem::MaybeUninit<weir_pool_device> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_pool_device>(),
        32usize,
        "Size of weir_pool_device",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_pool_device>(),
        8usize,
        "Alignment of weir_pool_device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_pool_device::device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved0) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_pool_device::reserved0",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).budget) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_pool_device::budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_pool_device::reserved",
    );
}
/// What a pool is made with.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_pool_desc {
    pub struct_size: u32,
    /// 1 .. 28
    pub device_count: u32,
    /// copied; each device at most once; the first is WEIR_DEVICE_DEFAULT
    pub devices: *const weir_pool_device,
    /// WEIR_POOL_*
    pub flags: u64,
    /**bytes of pinned host memory; WEIR_NONE = none but for staging; 0 = follows what
the machine and the cgroup have to spare (docs/budgets.md)*/
    pub host_budget: u64,
    /**0 = the largest of the devices' granules, and 4 MiB where that is 2 MiB, every device's budget has
64 of them and the other sizes allow it (docs/budgets.md); else a power of two times the largest granule, at most 1 GiB.
Without VMM a multiple of 256, at least 4096 (0 = 2 MiB)*/
    pub page_size: u64,
    /**0 = chosen by the budget; equal to page_size = one class only; else a power of two times
page_size, at most 1 GiB. More than a device's budget: one class only, told by a WARNING*/
    pub large_page_size: u64,
    /// thousandths of the device budget kept free; below it background demotion starts (0 = 10)
    pub watermark_low_permille: u32,
    /// ... and goes on until this many are free (0 = 30)
    pub watermark_high_permille: u32,
    /// how long one eviction may wait for the fences of released work (0 = 10 s)
    pub evict_wait_ns: u64,
    /**"auto" learns what each stream does, and evicts and brings back by a plan of what comes; policy_memory of
host memory and more, and two threads. "lru-window": what was used longest ago and is not announced
goes first. NULL: "auto" in a pool that is made with 64 MiB or more of device memory, a record_budget of
128 MiB or more, and threads (no WEIR_POOL_NO_BACKGROUND); else "lru-window" (docs/policies.md).
Others: INVALID_ARGUMENT*/
    pub policy: *const ::core::ffi::c_char,
    /// for logs and snapshots, copied: its first 255 bytes, up to the end of a character; NULL = "pool"
    pub name: *const ::core::ffi::c_char,
    /// bytes of pageable host memory for compressed pages; 0 = no such tier
    pub compressed_budget: u64,
    /// bytes of spill files in all, preallocated by weir_pool_create; 0 = no such tier
    pub storage_budget: u64,
    /// directories that exist; each gets one unlinked file, pages are striped over them; copied
    pub storage_paths: *const *const ::core::ffi::c_char,
    /// 1 .. 16 with a storage_budget
    pub storage_path_count: u32,
    /// threads that (de)compress; 0 = a quarter of the CPUs, at least one
    pub compress_threads: u32,
    /**percent of a CPU each of them may use in the background, 1 .. 100; 0 = 100.
What a caller waits for is not held back.*/
    pub compress_share_percent: u32,
    pub reserved: u32,
    /**what compressed blocks may be coded with: "auto" (NULL), or one of the methods that
weir_compress_desc.codec names*/
    pub codec: *const ::core::ffi::c_char,
    /**device memory that was not needed for this long goes back to the system by and by, all but
a reserve as large as the high watermark (0 = 10 s; WEIR_NONE = only by
weir_pool_trim, as with WEIR_POOL_NO_BACKGROUND)*/
    pub idle_grace_ns: u64,
    /**what device memory is taken in where there is no VMM; at least a page. 0 = an eighth of what is
held already, but from 32 MiB to an eighth of the budget, and at most 1 GiB*/
    pub segment_size: u64,
    /**pages that lie unused in COMPRESSED for this long are compressed again, harder, while the tier
is half full at least; within compress_share_percent, with codec "auto" only (0 = 10 s;
WEIR_NONE = never, as with WEIR_POOL_NO_BACKGROUND)*/
    pub recompress_idle_ns: u64,
    /**at most so much goes from HOST and below to neighbours that have memory to spare by now, in
the background (0 = 1 GiB a second; WEIR_NONE = only by weir_pool_rebalance, as
with WEIR_POOL_NO_BACKGROUND; never with WEIR_POOL_NO_PEER)*/
    pub rebalance_bytes_per_second: u64,
    /**bytes of host memory that the pool's own records (bookkeeping_bytes) may take when a buffer is
made: a buffer that needs more is refused (0 = 1/64 of the machine's memory; WEIR_UNLIMITED = no limit)*/
    pub record_budget: u64,
    /**bytes of host memory for what "auto" learns, of all devices and streams together, counted in
bookkeeping_bytes: what does not fit is forgotten, the oldest first. At least 2 MiB, and less than
record_budget (0 = 32 MiB, or a quarter of record_budget). Other policies take none*/
    pub policy_memory: u64,
    /**percent of one CPU that "auto" may use to learn and plan, 1 .. 100 (0 = 10). While that is used up it
learns nothing, which weir_pool_stats.lost_uses counts, and decides as "lru-window"*/
    pub policy_cpu_percent: u32,
    pub reserved2: u32,
}
#[test]
fn bindgen_test_layout_weir_pool_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_pool_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_pool_desc>(),
        184usize,
        "Size of weir_pool_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_pool_desc>(),
        8usize,
        "Alignment of weir_pool_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_pool_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_count) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_pool_desc::device_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).devices) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_pool_desc::devices",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_pool_desc::flags",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).host_budget) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_pool_desc::host_budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).page_size) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_pool_desc::page_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).large_page_size) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_pool_desc::large_page_size",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).watermark_low_permille) as usize - ptr as usize
        },
        48usize,
        "Offset of field: weir_pool_desc::watermark_low_permille",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).watermark_high_permille) as usize - ptr as usize
        },
        52usize,
        "Offset of field: weir_pool_desc::watermark_high_permille",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).evict_wait_ns) as usize - ptr as usize },
        56usize,
        "Offset of field: weir_pool_desc::evict_wait_ns",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).policy) as usize - ptr as usize },
        64usize,
        "Offset of field: weir_pool_desc::policy",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).name) as usize - ptr as usize },
        72usize,
        "Offset of field: weir_pool_desc::name",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_budget) as usize - ptr as usize
        },
        80usize,
        "Offset of field: weir_pool_desc::compressed_budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).storage_budget) as usize - ptr as usize },
        88usize,
        "Offset of field: weir_pool_desc::storage_budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).storage_paths) as usize - ptr as usize },
        96usize,
        "Offset of field: weir_pool_desc::storage_paths",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).storage_path_count) as usize - ptr as usize
        },
        104usize,
        "Offset of field: weir_pool_desc::storage_path_count",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compress_threads) as usize - ptr as usize
        },
        108usize,
        "Offset of field: weir_pool_desc::compress_threads",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compress_share_percent) as usize - ptr as usize
        },
        112usize,
        "Offset of field: weir_pool_desc::compress_share_percent",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        116usize,
        "Offset of field: weir_pool_desc::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).codec) as usize - ptr as usize },
        120usize,
        "Offset of field: weir_pool_desc::codec",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).idle_grace_ns) as usize - ptr as usize },
        128usize,
        "Offset of field: weir_pool_desc::idle_grace_ns",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).segment_size) as usize - ptr as usize },
        136usize,
        "Offset of field: weir_pool_desc::segment_size",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).recompress_idle_ns) as usize - ptr as usize
        },
        144usize,
        "Offset of field: weir_pool_desc::recompress_idle_ns",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).rebalance_bytes_per_second) as usize
                - ptr as usize
        },
        152usize,
        "Offset of field: weir_pool_desc::rebalance_bytes_per_second",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).record_budget) as usize - ptr as usize },
        160usize,
        "Offset of field: weir_pool_desc::record_budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).policy_memory) as usize - ptr as usize },
        168usize,
        "Offset of field: weir_pool_desc::policy_memory",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).policy_cpu_percent) as usize - ptr as usize
        },
        176usize,
        "Offset of field: weir_pool_desc::policy_cpu_percent",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved2) as usize - ptr as usize },
        180usize,
        "Offset of field: weir_pool_desc::reserved2",
    );
}
/// no demotion or prefetch threads: all work happens inside calls
pub const WEIR_POOL_NO_BACKGROUND: _bindgen_ty_13 = 1;
/// checksum every page that is demoted to host memory, and compare it before the bytes are used again
pub const WEIR_POOL_CHECKSUM_HOST: _bindgen_ty_13 = 2;
/**AES-256-XTS with a random key that is kept in memory only. Core dumps of the process can have it: libcrypto
keeps what it makes of it in its ordinary heap (docs/tiers.md). NOT_SUPPORTED without libcrypto*/
pub const WEIR_POOL_ENCRYPT_STORAGE: _bindgen_ty_13 = 4;
/// through the page cache: no O_DIRECT even where the file system has it
pub const WEIR_POOL_BUFFERED_STORAGE: _bindgen_ty_13 = 8;
/// pread and pwrite on threads, even where io_uring works
pub const WEIR_POOL_NO_IO_URING: _bindgen_ty_13 = 16;
/// no page leaves a device for a neighbour's idle memory: HOST is the first place to go
pub const WEIR_POOL_NO_PEER: _bindgen_ty_13 = 32;
/// Flags of a pool.
pub type _bindgen_ty_13 = ::core::ffi::c_uint;
extern "C" {
    /**Creates a pool. Host memory is taken as it is needed (in chunks, in the background), device memory too.
The caller owns *pool. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY, DEVICE_OOM, BACKEND, NOT_SUPPORTED, IO (the
spill files can't be made).*/
    pub fn weir_pool_create(
        context: weir_context,
        desc: *const weir_pool_desc,
        pool: *mut weir_pool,
    ) -> weir_result;
}
extern "C" {
    /**Ends a pool. BUSY while leases are unreleased, weir_malloc memory is out, a device is being removed or asynchronous acquires
have not ended, and from within a callback of the pool's; a callback under way on its thread is waited for. Buffers and clients still
alive die with it, and their contents are dropped; it waits for work in flight on them. NULL is allowed.*/
    pub fn weir_pool_destroy(pool: weir_pool) -> weir_result;
}
extern "C" {
    /**Adds a device of the context to the pool, while it is used: at once for leases, neighbours' pages and new buffers. It must
be of the same backend as the pool's other devices and take pages of their size. One that has left may come back; its budget may
be another then. Copies from memory that was mapped before it came go through the host until that memory is mapped anew. Any thread.
Nothing is changed on failure. Errors: INVALID_ARGUMENT (it is of the pool already; more than 28 in the pool's life), NOT_SUPPORTED,
DEVICE_LOST, OUT_OF_HOST_MEMORY, BACKEND.*/
    pub fn weir_pool_add_device(
        pool: weir_pool,
        device: *const weir_pool_device,
    ) -> weir_result;
}
extern "C" {
    /**Copies up to `bytes` of spilled pages from HOST and below to neighbours of their home that have memory to spare and a better link to
it than the host's, the most recently used buffers' first: the next use brings them from there. As after a spill to a neighbour, the
owner of the memory gets it back as soon as it wants it. Evicts nothing. *moved (may be NULL) gets the bytes. Returns when the copies have
been enqueued. A pool with background threads does this by itself, at the rate it was made with. Any thread.
Errors: INVALID_HANDLE, OUT_OF_HOST_MEMORY.*/
    pub fn weir_pool_rebalance(
        pool: weir_pool,
        bytes: u64,
        moved: *mut u64,
    ) -> weir_result;
}
extern "C" {
    /**Takes a device out of the pool, with nothing lost: from now on it is given nothing new (acquires on its streams answer
DEVICE_REMOVED), leases there and of its streams are waited for, pages move to other devices or down the tiers, its memory goes back to the
system, and buffers that had it as their home get the nearest device instead (weir_buffer_info.home; their address there is another).
Blocks the calling thread, `timeout_ns` at most (WEIR_INFINITE: no bound), but for the copies of up to 32 MiB that are under way then. It holds
no lock meanwhile: other threads go on. A lost device can be removed too.
Errors, after which the device is of the pool as before and takes leases again (pages that have moved come back when they are
used): TIMEOUT (leases or work on them did not end), CANCELLED, OVER_BUDGET (the other tiers have no room), BUSY (held memory,
weir_malloc memory, the last device of a sharded buffer, or it is being removed already), INVALID_ARGUMENT (not of the pool, or its only device), IO, BACKEND,
OUT_OF_HOST_MEMORY.*/
    pub fn weir_pool_remove_device(
        pool: weir_pool,
        device: weir_device,
        timeout_ns: u64,
    ) -> weir_result;
}
extern "C" {
    /// Ends a weir_pool_remove_device that another thread is in, with CANCELLED there. INVALID_ARGUMENT: there is none, or not any more.
    pub fn weir_pool_cancel_remove(pool: weir_pool, device: weir_device) -> weir_result;
}
/// A device that was lost, and what went with it.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_device_loss {
    pub struct_size: u32,
    /// which
    pub device: weir_device,
    /// the pool's (weir_pool_stats.generation) as it was lost
    pub generation: u64,
    /// that were nowhere else; weir_pool_lost_ranges names them
    pub lost_bytes: u64,
}
#[test]
fn bindgen_test_layout_weir_device_loss() {
    const UNINIT: ::core::mem::MaybeUninit<weir_device_loss> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_device_loss>(),
        24usize,
        "Size of weir_device_loss",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_device_loss>(),
        8usize,
        "Alignment of weir_device_loss",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_device_loss::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_device_loss::device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).generation) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_device_loss::generation",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).lost_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_device_loss::lost_bytes",
    );
}
/**Called on a thread of the pool's own, one loss at a time, in the order of generations, with no lock held. It may call anything for
this pool but weir_pool_destroy and weir_pool_set_loss_callback; it must not throw. *loss is valid during the call.*/
pub type weir_loss_callback = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, loss: *const weir_device_loss),
>;
extern "C" {
    /**Sets the pool's callback for lost devices, or none (NULL). A pool notices a loss when a call of its own meets it; losses from
before are told too. Waits for a call of the former callback that is under way; after that it is not called again. Errors: OUT_OF_HOST_MEMORY (no
thread), BUSY (from within a callback).*/
    pub fn weir_pool_set_loss_callback(
        pool: weir_pool,
        callback: weir_loss_callback,
        user: *mut ::core::ffi::c_void,
    ) -> weir_result;
}
/// Bytes of a buffer that were lost with a device. Fixed size: 64 bytes.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_lost_range {
    /// whose
    pub buffer: weir_buffer,
    /// the buffer's
    pub tag: u64,
    /// in the buffer
    pub offset: u64,
    /// bytes
    pub length: u64,
    /// 0
    pub reserved: [u64; 4usize],
}
#[test]
fn bindgen_test_layout_weir_lost_range() {
    const UNINIT: ::core::mem::MaybeUninit<weir_lost_range> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_lost_range>(),
        64usize,
        "Size of weir_lost_range",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_lost_range>(),
        8usize,
        "Alignment of weir_lost_range",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).buffer) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_lost_range::buffer",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).tag) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_lost_range::tag",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).offset) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_lost_range::offset",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).length) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_lost_range::length",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_lost_range::reserved",
    );
}
extern "C" {
    /**Tells what is lost now, in whole pages clipped to the buffers: *count ranges, of which the first `capacity` are written
(INCOMPLETE: not all; `ranges` may be NULL with a capacity of 0). A range ends being lost when it is written anew with
DISCARD_WRITE, or discarded. Any thread. Looks at 1000 buffers at a time under the pool's lock, and at no further one after 4096
pages: all that was lost before the call and still is, is told; what is lost meanwhile may be.*/
    pub fn weir_pool_lost_ranges(
        pool: weir_pool,
        ranges: *mut weir_lost_range,
        capacity: usize,
        count: *mut usize,
    ) -> weir_result;
}
pub const WEIR_PRIORITY_LOWEST: _bindgen_ty_14 = -2;
pub const WEIR_PRIORITY_LOW: _bindgen_ty_14 = -1;
pub const WEIR_PRIORITY_NORMAL: _bindgen_ty_14 = 0;
pub const WEIR_PRIORITY_HIGH: _bindgen_ty_14 = 1;
pub const WEIR_PRIORITY_HIGHEST: _bindgen_ty_14 = 2;
/// Eviction order between buffers: lower classes go first.
pub type _bindgen_ty_14 = ::core::ffi::c_int;
/// What a client is made with.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_client_desc {
    pub struct_size: u32,
    /// added to the buffers' own priority, clamped to the range
    pub priority: i32,
    /// bytes it may hold on each device; 0 = the pool's budget, WEIR_NONE = nothing
    pub device_quota: u64,
    /// bytes it may hold in HOST; 0 = the pool's budget, WEIR_NONE = nothing
    pub host_quota: u64,
    /// copied: its first 255 bytes, up to the end of a character; NULL = ""
    pub name: *const ::core::ffi::c_char,
    /// bytes it may hold in COMPRESSED, as compressed; 0 = the pool's budget, WEIR_NONE = nothing
    pub compressed_quota: u64,
    /// bytes it may hold in STORAGE, as stored; 0 = the pool's budget, WEIR_NONE = nothing
    pub storage_quota: u64,
}
#[test]
fn bindgen_test_layout_weir_client_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_client_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_client_desc>(),
        48usize,
        "Size of weir_client_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_client_desc>(),
        8usize,
        "Alignment of weir_client_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_client_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).priority) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_client_desc::priority",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_quota) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_client_desc::device_quota",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).host_quota) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_client_desc::host_quota",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).name) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_client_desc::name",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_quota) as usize - ptr as usize
        },
        32usize,
        "Offset of field: weir_client_desc::compressed_quota",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).storage_quota) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_client_desc::storage_quota",
    );
}
extern "C" {
    /**A client is charged for what its buffers hold. Memory never passes from one client to another unzeroed.
The caller owns *client. Buffers made without a client belong to the pool's own, which has no quota.*/
    pub fn weir_client_create(
        pool: weir_pool,
        desc: *const weir_client_desc,
        client: *mut weir_client,
    ) -> weir_result;
}
extern "C" {
    /// Ends a client. BUSY while it has buffers (nothing is changed then). NULL is allowed.
    pub fn weir_client_destroy(client: weir_client) -> weir_result;
}
/// What a client is charged for.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_client_stats {
    pub struct_size: u32,
    /// live ones
    pub buffers: u32,
    /// held on all devices: whole pages, and of shared granules its own parts
    pub device_bytes: u64,
    /// held in HOST
    pub host_bytes: u64,
    /// held in COMPRESSED, as compressed
    pub compressed_bytes: u64,
    /// held in STORAGE, as stored
    pub storage_bytes: u64,
}
#[test]
fn bindgen_test_layout_weir_client_stats() {
    const UNINIT: ::core::mem::MaybeUninit<weir_client_stats> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_client_stats>(),
        40usize,
        "Size of weir_client_stats",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_client_stats>(),
        8usize,
        "Alignment of weir_client_stats",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_client_stats::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).buffers) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_client_stats::buffers",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_bytes) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_client_stats::device_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).host_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_client_stats::host_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_bytes) as usize - ptr as usize
        },
        24usize,
        "Offset of field: weir_client_stats::compressed_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).storage_bytes) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_client_stats::storage_bytes",
    );
}
extern "C" {
    /// Fills *stats.
    pub fn weir_client_stats_get(
        client: weir_client,
        stats: *mut weir_client_stats,
    ) -> weir_result;
}
/// idle granules and clean pages
pub const WEIR_TRIM_GRADUAL: _bindgen_ty_15 = 0;
/// ... and dirty pages, in the policy's order
pub const WEIR_TRIM_SELECTIVE: _bindgen_ty_15 = 1;
/// ... everything that is neither leased nor held, and spare host memory too
pub const WEIR_TRIM_EMERGENCY: _bindgen_ty_15 = 2;
/// How hard a trim tries.
pub type _bindgen_ty_15 = ::core::ffi::c_uint;
extern "C" {
    /**Gives device memory back to the system until `bytes` are freed or nothing more can go; where there is no VMM it goes
by whole segments, once they are empty. *freed (may be NULL) is written also when less than `bytes` could be freed; that is no error. `device` may be
WEIR_DEVICE_HOST: spare pinned memory is returned. Errors: INVALID_ARGUMENT, BACKEND.*/
    pub fn weir_pool_trim(
        pool: weir_pool,
        device: weir_device,
        level: u32,
        bytes: u64,
        freed: *mut u64,
    ) -> weir_result;
}
/**waits until the copies, and older work on the places that they leave, have ended: the memory won is free
when the call returns. Without it the call waits for no device, and a later call frees the rest.*/
pub const WEIR_DEFRAGMENT_WAIT: _bindgen_ty_16 = 1;
/// without VMM: what is in the way of a longer range and fits nowhere else is evicted
pub const WEIR_DEFRAGMENT_EVICT: _bindgen_ty_16 = 2;
/// Flags of weir_pool_defragment.
pub type _bindgen_ty_16 = ::core::ffi::c_uint;
/**Asked between two steps, on the thread that called weir_pool_defragment and without any lock: nonzero ends the call. It may
call anything but weir_pool_destroy for this pool; it must not throw.*/
pub type weir_defragment_break = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void) -> i32,
>;
/**Bounds of one call. 0 = no bound. Bytes and moves, evictions among them, are never exceeded; time is checked before each step, and a step hands at
most 32 moves or 4 MiB (or one larger buffer) to the device.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_defragment_desc {
    pub struct_size: u32,
    /// one of the pool's, WEIR_DEVICE_DEFAULT or WEIR_DEVICE_ALL
    pub device: weir_device,
    /// WEIR_DEFRAGMENT_*
    pub flags: u64,
    /// moved
    pub max_bytes: u64,
    /// how many
    pub max_moves: u64,
    /// of the call
    pub max_ns: u64,
    /// bytes moved for a thousand bytes won; what costs more is left alone (0 = 1000)
    pub max_cost_permille: u32,
    pub reserved: u32,
    /// may be NULL
    pub should_stop: weir_defragment_break,
    /// goes with `should_stop`
    pub user: *mut ::core::ffi::c_void,
}
#[test]
fn bindgen_test_layout_weir_defragment_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_defragment_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_defragment_desc>(),
        64usize,
        "Size of weir_defragment_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_defragment_desc>(),
        8usize,
        "Alignment of weir_defragment_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_defragment_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_defragment_desc::device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_defragment_desc::flags",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).max_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_defragment_desc::max_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).max_moves) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_defragment_desc::max_moves",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).max_ns) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_defragment_desc::max_ns",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).max_cost_permille) as usize - ptr as usize
        },
        40usize,
        "Offset of field: weir_defragment_desc::max_cost_permille",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        44usize,
        "Offset of field: weir_defragment_desc::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).should_stop) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_defragment_desc::should_stop",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).user) as usize - ptr as usize },
        56usize,
        "Offset of field: weir_defragment_desc::user",
    );
}
/// What a call did, and what it left. Of several devices the sums, and the worst fragmentation.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_defragment_report {
    pub struct_size: u32,
    /// 1: no bound ended it; calling again at once would change nothing
    pub finished: u32,
    /// copied on the device
    pub moved_bytes: u64,
    /// tenants moved, those without contents too
    pub copy_moves: u64,
    /// parts of buffers that went to a granule with others; their addresses stay
    pub remap_moves: u64,
    /// with WEIR_DEFRAGMENT_EVICT
    pub evict_moves: u64,
    /// that left the device by them
    pub evicted_bytes: u64,
    /// device memory that was not free before and is now: of slabs, and of dead buffers without VMM
    pub won_bytes: u64,
    /// without VMM: the longest free range of one device
    pub largest_free_before: u64,
    /// the same, as the call left it
    pub largest_free_after: u64,
    /// of the call
    pub elapsed_ns: u64,
    /// what stayed: leased, or used by a call under way
    pub leased_bytes: u64,
    /// ... held (weir_hold)
    pub held_bytes: u64,
    /// ... of weir_malloc
    pub pinned_bytes: u64,
    /// ... STABLE_ADDRESS. 0 in this version: such buffers own whole pages
    pub stable_bytes: u64,
    /// ... not on the device as a whole, being brought in, taken out or moved
    pub busy_bytes: u64,
    /// ... would fit nowhere else
    pub no_room_bytes: u64,
    /**thousandths: of the memory of slabs, what no buffer uses; without VMM of the free bytes,
what lies outside the longest range, if that is more*/
    pub fragmentation_before_permille: u32,
    /// the same, as the call left it
    pub fragmentation_after_permille: u32,
}
#[test]
fn bindgen_test_layout_weir_defragment_report() {
    const UNINIT: ::core::mem::MaybeUninit<weir_defragment_report> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_defragment_report>(),
        136usize,
        "Size of weir_defragment_report",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_defragment_report>(),
        8usize,
        "Alignment of weir_defragment_report",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_defragment_report::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).finished) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_defragment_report::finished",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).moved_bytes) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_defragment_report::moved_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).copy_moves) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_defragment_report::copy_moves",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).remap_moves) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_defragment_report::remap_moves",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).evict_moves) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_defragment_report::evict_moves",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).evicted_bytes) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_defragment_report::evicted_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).won_bytes) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_defragment_report::won_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).largest_free_before) as usize - ptr as usize
        },
        56usize,
        "Offset of field: weir_defragment_report::largest_free_before",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).largest_free_after) as usize - ptr as usize
        },
        64usize,
        "Offset of field: weir_defragment_report::largest_free_after",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).elapsed_ns) as usize - ptr as usize },
        72usize,
        "Offset of field: weir_defragment_report::elapsed_ns",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).leased_bytes) as usize - ptr as usize },
        80usize,
        "Offset of field: weir_defragment_report::leased_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).held_bytes) as usize - ptr as usize },
        88usize,
        "Offset of field: weir_defragment_report::held_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).pinned_bytes) as usize - ptr as usize },
        96usize,
        "Offset of field: weir_defragment_report::pinned_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).stable_bytes) as usize - ptr as usize },
        104usize,
        "Offset of field: weir_defragment_report::stable_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).busy_bytes) as usize - ptr as usize },
        112usize,
        "Offset of field: weir_defragment_report::busy_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).no_room_bytes) as usize - ptr as usize },
        120usize,
        "Offset of field: weir_defragment_report::no_room_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).fragmentation_before_permille) as usize
                - ptr as usize
        },
        128usize,
        "Offset of field: weir_defragment_report::fragmentation_before_permille",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).fragmentation_after_permille) as usize
                - ptr as usize
        },
        132usize,
        "Offset of field: weir_defragment_report::fragmentation_after_permille",
    );
}
extern "C" {
    /**Moves small buffers together so that slabs become empty, and without VMM all buffers, so that free ranges become long. Buffers
that move get another address: the next lease tells it. Buffers that are leased, held or STABLE_ADDRESS, and weir_malloc's memory, stay.
The copies run in the order of the streams, after released work on the buffers; later work waits for them on the device.
Acquiring or destroying a buffer meanwhile is allowed. Incremental: a call goes on where the last one stopped.
*report (may be NULL) is written also if the call fails halfway. What has no room in the tiers below stays (no_room_bytes).
Any thread. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY, BACKEND, DEVICE_LOST, and IO of what is evicted.*/
    pub fn weir_pool_defragment(
        pool: weir_pool,
        desc: *const weir_defragment_desc,
        report: *mut weir_defragment_report,
    ) -> weir_result;
}
/// Defragmentation in the background.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_defragmentation_desc {
    pub struct_size: u32,
    /**thousandths of fragmentation (weir_defragment_report) above which it works; 0 = off, as after
weir_pool_create*/
    pub threshold_permille: u32,
    /// 0
    pub flags: u64,
    /// moved, at most (0 = 256 MiB)
    pub bytes_per_second: u64,
    /// as in weir_defragment_desc (0 = 500)
    pub max_cost_permille: u32,
    pub reserved: u32,
}
#[test]
fn bindgen_test_layout_weir_defragmentation_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_defragmentation_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_defragmentation_desc>(),
        32usize,
        "Size of weir_defragmentation_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_defragmentation_desc>(),
        8usize,
        "Alignment of weir_defragmentation_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_defragmentation_desc::struct_size",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).threshold_permille) as usize - ptr as usize
        },
        4usize,
        "Offset of field: weir_defragmentation_desc::threshold_permille",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_defragmentation_desc::flags",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).bytes_per_second) as usize - ptr as usize
        },
        16usize,
        "Offset of field: weir_defragmentation_desc::bytes_per_second",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).max_cost_permille) as usize - ptr as usize
        },
        24usize,
        "Offset of field: weir_defragmentation_desc::max_cost_permille",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        28usize,
        "Offset of field: weir_defragmentation_desc::reserved",
    );
}
extern "C" {
    /**Starts, changes or ends (threshold_permille 0) the pool's defragmentation by a thread of its own, which looks ten times a second,
waits for no device and evicts nothing. Ending waits for the step under way. Any thread; calls take turns. Errors: INVALID_ARGUMENT,
OUT_OF_HOST_MEMORY; NOT_SUPPORTED: the pool was made with WEIR_POOL_NO_BACKGROUND.*/
    pub fn weir_pool_set_defragmentation(
        pool: weir_pool,
        desc: *const weir_defragmentation_desc,
    ) -> weir_result;
}
extern "C" {
    /**Writes what the pool's policy has learned of the program, for weir_pool_policy_load of a later pool, also in another process: at most
64 MiB into the caller's `bytes`, if `capacity` is enough; *needed gets how many they are. A capacity of 0 only asks (`bytes` may be NULL).
The bytes have the names of operations in them, sizes of buffers and the order of uses; nothing of any content, and no address. They
are a cache: a later release of the library may refuse them (docs/abi.md). What was acquired before the call is in them: the call waits for the pool's
thread that learns it, a second at most, and not where its share of a CPU (policy_cpu_percent) is used up. The program may run on:
then *needed may be more the next time. Host memory of about three times the bytes is taken for the time of the call, and the pool's lock
for moments. Any thread; takes turns with other saves and loads of the pool. docs/policies.md tells when to save.
Errors (nothing is written to `bytes`): INVALID_ARGUMENT (`needed` is NULL, `bytes` is NULL with a capacity; `capacity` is too small:
*needed tells what would do), NOT_SUPPORTED (this pool learns nothing; the message says why), OUT_OF_HOST_MEMORY.*/
    pub fn weir_pool_policy_save(
        pool: weir_pool,
        bytes: *mut ::core::ffi::c_void,
        capacity: u64,
        needed: *mut u64,
    ) -> weir_result;
}
extern "C" {
    /**Loads into the pool's policy what another one has learned and weir_pool_policy_save has written: `size` bytes, which are not looked at after
the call. The first round of the program is then planned as a later one would be. To be called before the first acquire of the pool; buffers and
streams may exist. Loading again before it replaces all that was loaded. A device gets what the one at the same position in
the saving pool's list has learned. The program's names get numbers (weir_operation_id). The bytes may be anything: they are checked as a whole before
anything is allocated or changed, and what they say can cost a program time and nothing else. Takes about a second for each
million operations, and host memory of about twice the bytes beside that of the policy. Any thread; takes turns with other saves and loads.
Errors (the pool knows what it did before; at OUT_OF_HOST_MEMORY some names may have got numbers): INVALID_ARGUMENT (`bytes` is NULL;
something has been acquired), CORRUPT (cut, damaged, or no saved policy), NOT_SUPPORTED (of another version of the format, byte
order, policy or page size; or this pool learns nothing: the message says which), OUT_OF_HOST_MEMORY.*/
    pub fn weir_pool_policy_load(
        pool: weir_pool,
        bytes: *const ::core::ffi::c_void,
        size: u64,
    ) -> weir_result;
}
/// The counters of a pool: a uint64_t for each of WEIR_POOL_STATS_FIELDS.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_pool_stats {
    pub struct_size: u32,
    pub reserved: u32,
    pub device_budget: u64,
    pub device_bytes: u64,
    pub device_free_bytes: u64,
    pub device_held_bytes: u64,
    pub host_budget: u64,
    pub host_bytes: u64,
    pub host_used_bytes: u64,
    pub buffers: u64,
    pub pages: u64,
    pub slabs: u64,
    pub buffer_bytes: u64,
    pub bookkeeping_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub promoted_bytes: u64,
    pub demoted_bytes: u64,
    pub dropped_clean_bytes: u64,
    pub discarded_bytes: u64,
    pub zero_filled_bytes: u64,
    pub prefetched_bytes: u64,
    pub background_demoted_bytes: u64,
    pub peer_bytes: u64,
    pub evictions: u64,
    pub eviction_failures: u64,
    pub over_budget: u64,
    pub would_block: u64,
    pub lease_conflicts: u64,
    pub device_oom: u64,
    pub refaulted_bytes: u64,
    pub wait_ns: u64,
    pub checksum_failures: u64,
    pub staging_bytes: u64,
    pub compressed_budget: u64,
    pub compressed_bytes: u64,
    pub compressed_raw_bytes: u64,
    pub storage_budget: u64,
    pub storage_bytes: u64,
    pub storage_raw_bytes: u64,
    pub storage_written_bytes: u64,
    pub storage_read_bytes: u64,
    pub compressed_in_bytes: u64,
    pub compressed_out_bytes: u64,
    pub decompressed_bytes: u64,
    pub incompressible_bytes: u64,
    pub sunk_bytes: u64,
    pub lifted_bytes: u64,
    pub io_errors: u64,
    pub cached_bytes: u64,
    pub device_peak_bytes: u64,
    pub device_segments: u64,
    pub device_returned_bytes: u64,
    pub defragment_moves: u64,
    pub defragment_moved_bytes: u64,
    pub defragment_evicted_bytes: u64,
    pub defragment_won_bytes: u64,
    pub recompressed_bytes: u64,
    pub recompressed_won_bytes: u64,
    pub lent_bytes: u64,
    pub borrowed_bytes: u64,
    pub relayed_bytes: u64,
    pub host_relayed_bytes: u64,
    pub split_bytes: u64,
    pub rebalanced_bytes: u64,
    pub generation: u64,
    pub remote_uses: u64,
    pub shared_operation_ids: u64,
    pub learned_operations: u64,
    pub lost_uses: u64,
    pub planned_operations: u64,
    pub plans_made: u64,
    pub plan_fetched_bytes: u64,
    pub plan_cleaned_bytes: u64,
    pub policy_switches: u64,
    pub policy_carries_plans: u64,
    pub plans_ended_untrusted: u64,
    pub plans_ended_moved: u64,
    pub plans_ended_missed: u64,
    pub plans_ended_old: u64,
    pub plans_ended_budget: u64,
    pub plans_ended_device: u64,
    pub plans_ended_share: u64,
    pub plans_ended_announced: u64,
    pub plans_ended_memory: u64,
}
#[test]
fn bindgen_test_layout_weir_pool_stats() {
    const UNINIT: ::core::mem::MaybeUninit<weir_pool_stats> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_pool_stats>(),
        672usize,
        "Size of weir_pool_stats",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_pool_stats>(),
        8usize,
        "Alignment of weir_pool_stats",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_pool_stats::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_pool_stats::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_budget) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_pool_stats::device_budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_pool_stats::device_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).device_free_bytes) as usize - ptr as usize
        },
        24usize,
        "Offset of field: weir_pool_stats::device_free_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).device_held_bytes) as usize - ptr as usize
        },
        32usize,
        "Offset of field: weir_pool_stats::device_held_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).host_budget) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_pool_stats::host_budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).host_bytes) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_pool_stats::host_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).host_used_bytes) as usize - ptr as usize },
        56usize,
        "Offset of field: weir_pool_stats::host_used_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).buffers) as usize - ptr as usize },
        64usize,
        "Offset of field: weir_pool_stats::buffers",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).pages) as usize - ptr as usize },
        72usize,
        "Offset of field: weir_pool_stats::pages",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).slabs) as usize - ptr as usize },
        80usize,
        "Offset of field: weir_pool_stats::slabs",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).buffer_bytes) as usize - ptr as usize },
        88usize,
        "Offset of field: weir_pool_stats::buffer_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).bookkeeping_bytes) as usize - ptr as usize
        },
        96usize,
        "Offset of field: weir_pool_stats::bookkeeping_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).hits) as usize - ptr as usize },
        104usize,
        "Offset of field: weir_pool_stats::hits",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).misses) as usize - ptr as usize },
        112usize,
        "Offset of field: weir_pool_stats::misses",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).promoted_bytes) as usize - ptr as usize },
        120usize,
        "Offset of field: weir_pool_stats::promoted_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).demoted_bytes) as usize - ptr as usize },
        128usize,
        "Offset of field: weir_pool_stats::demoted_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).dropped_clean_bytes) as usize - ptr as usize
        },
        136usize,
        "Offset of field: weir_pool_stats::dropped_clean_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).discarded_bytes) as usize - ptr as usize },
        144usize,
        "Offset of field: weir_pool_stats::discarded_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).zero_filled_bytes) as usize - ptr as usize
        },
        152usize,
        "Offset of field: weir_pool_stats::zero_filled_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).prefetched_bytes) as usize - ptr as usize
        },
        160usize,
        "Offset of field: weir_pool_stats::prefetched_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).background_demoted_bytes) as usize
                - ptr as usize
        },
        168usize,
        "Offset of field: weir_pool_stats::background_demoted_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).peer_bytes) as usize - ptr as usize },
        176usize,
        "Offset of field: weir_pool_stats::peer_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).evictions) as usize - ptr as usize },
        184usize,
        "Offset of field: weir_pool_stats::evictions",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).eviction_failures) as usize - ptr as usize
        },
        192usize,
        "Offset of field: weir_pool_stats::eviction_failures",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).over_budget) as usize - ptr as usize },
        200usize,
        "Offset of field: weir_pool_stats::over_budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).would_block) as usize - ptr as usize },
        208usize,
        "Offset of field: weir_pool_stats::would_block",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).lease_conflicts) as usize - ptr as usize },
        216usize,
        "Offset of field: weir_pool_stats::lease_conflicts",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_oom) as usize - ptr as usize },
        224usize,
        "Offset of field: weir_pool_stats::device_oom",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).refaulted_bytes) as usize - ptr as usize },
        232usize,
        "Offset of field: weir_pool_stats::refaulted_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).wait_ns) as usize - ptr as usize },
        240usize,
        "Offset of field: weir_pool_stats::wait_ns",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).checksum_failures) as usize - ptr as usize
        },
        248usize,
        "Offset of field: weir_pool_stats::checksum_failures",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).staging_bytes) as usize - ptr as usize },
        256usize,
        "Offset of field: weir_pool_stats::staging_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_budget) as usize - ptr as usize
        },
        264usize,
        "Offset of field: weir_pool_stats::compressed_budget",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_bytes) as usize - ptr as usize
        },
        272usize,
        "Offset of field: weir_pool_stats::compressed_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_raw_bytes) as usize - ptr as usize
        },
        280usize,
        "Offset of field: weir_pool_stats::compressed_raw_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).storage_budget) as usize - ptr as usize },
        288usize,
        "Offset of field: weir_pool_stats::storage_budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).storage_bytes) as usize - ptr as usize },
        296usize,
        "Offset of field: weir_pool_stats::storage_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).storage_raw_bytes) as usize - ptr as usize
        },
        304usize,
        "Offset of field: weir_pool_stats::storage_raw_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).storage_written_bytes) as usize - ptr as usize
        },
        312usize,
        "Offset of field: weir_pool_stats::storage_written_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).storage_read_bytes) as usize - ptr as usize
        },
        320usize,
        "Offset of field: weir_pool_stats::storage_read_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_in_bytes) as usize - ptr as usize
        },
        328usize,
        "Offset of field: weir_pool_stats::compressed_in_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_out_bytes) as usize - ptr as usize
        },
        336usize,
        "Offset of field: weir_pool_stats::compressed_out_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).decompressed_bytes) as usize - ptr as usize
        },
        344usize,
        "Offset of field: weir_pool_stats::decompressed_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).incompressible_bytes) as usize - ptr as usize
        },
        352usize,
        "Offset of field: weir_pool_stats::incompressible_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).sunk_bytes) as usize - ptr as usize },
        360usize,
        "Offset of field: weir_pool_stats::sunk_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).lifted_bytes) as usize - ptr as usize },
        368usize,
        "Offset of field: weir_pool_stats::lifted_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).io_errors) as usize - ptr as usize },
        376usize,
        "Offset of field: weir_pool_stats::io_errors",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).cached_bytes) as usize - ptr as usize },
        384usize,
        "Offset of field: weir_pool_stats::cached_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).device_peak_bytes) as usize - ptr as usize
        },
        392usize,
        "Offset of field: weir_pool_stats::device_peak_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_segments) as usize - ptr as usize },
        400usize,
        "Offset of field: weir_pool_stats::device_segments",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).device_returned_bytes) as usize - ptr as usize
        },
        408usize,
        "Offset of field: weir_pool_stats::device_returned_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).defragment_moves) as usize - ptr as usize
        },
        416usize,
        "Offset of field: weir_pool_stats::defragment_moves",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).defragment_moved_bytes) as usize - ptr as usize
        },
        424usize,
        "Offset of field: weir_pool_stats::defragment_moved_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).defragment_evicted_bytes) as usize
                - ptr as usize
        },
        432usize,
        "Offset of field: weir_pool_stats::defragment_evicted_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).defragment_won_bytes) as usize - ptr as usize
        },
        440usize,
        "Offset of field: weir_pool_stats::defragment_won_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).recompressed_bytes) as usize - ptr as usize
        },
        448usize,
        "Offset of field: weir_pool_stats::recompressed_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).recompressed_won_bytes) as usize - ptr as usize
        },
        456usize,
        "Offset of field: weir_pool_stats::recompressed_won_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).lent_bytes) as usize - ptr as usize },
        464usize,
        "Offset of field: weir_pool_stats::lent_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).borrowed_bytes) as usize - ptr as usize },
        472usize,
        "Offset of field: weir_pool_stats::borrowed_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).relayed_bytes) as usize - ptr as usize },
        480usize,
        "Offset of field: weir_pool_stats::relayed_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).host_relayed_bytes) as usize - ptr as usize
        },
        488usize,
        "Offset of field: weir_pool_stats::host_relayed_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).split_bytes) as usize - ptr as usize },
        496usize,
        "Offset of field: weir_pool_stats::split_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).rebalanced_bytes) as usize - ptr as usize
        },
        504usize,
        "Offset of field: weir_pool_stats::rebalanced_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).generation) as usize - ptr as usize },
        512usize,
        "Offset of field: weir_pool_stats::generation",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).remote_uses) as usize - ptr as usize },
        520usize,
        "Offset of field: weir_pool_stats::remote_uses",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).shared_operation_ids) as usize - ptr as usize
        },
        528usize,
        "Offset of field: weir_pool_stats::shared_operation_ids",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).learned_operations) as usize - ptr as usize
        },
        536usize,
        "Offset of field: weir_pool_stats::learned_operations",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).lost_uses) as usize - ptr as usize },
        544usize,
        "Offset of field: weir_pool_stats::lost_uses",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).planned_operations) as usize - ptr as usize
        },
        552usize,
        "Offset of field: weir_pool_stats::planned_operations",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).plans_made) as usize - ptr as usize },
        560usize,
        "Offset of field: weir_pool_stats::plans_made",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plan_fetched_bytes) as usize - ptr as usize
        },
        568usize,
        "Offset of field: weir_pool_stats::plan_fetched_bytes",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plan_cleaned_bytes) as usize - ptr as usize
        },
        576usize,
        "Offset of field: weir_pool_stats::plan_cleaned_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).policy_switches) as usize - ptr as usize },
        584usize,
        "Offset of field: weir_pool_stats::policy_switches",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).policy_carries_plans) as usize - ptr as usize
        },
        592usize,
        "Offset of field: weir_pool_stats::policy_carries_plans",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plans_ended_untrusted) as usize - ptr as usize
        },
        600usize,
        "Offset of field: weir_pool_stats::plans_ended_untrusted",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plans_ended_moved) as usize - ptr as usize
        },
        608usize,
        "Offset of field: weir_pool_stats::plans_ended_moved",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plans_ended_missed) as usize - ptr as usize
        },
        616usize,
        "Offset of field: weir_pool_stats::plans_ended_missed",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).plans_ended_old) as usize - ptr as usize },
        624usize,
        "Offset of field: weir_pool_stats::plans_ended_old",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plans_ended_budget) as usize - ptr as usize
        },
        632usize,
        "Offset of field: weir_pool_stats::plans_ended_budget",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plans_ended_device) as usize - ptr as usize
        },
        640usize,
        "Offset of field: weir_pool_stats::plans_ended_device",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plans_ended_share) as usize - ptr as usize
        },
        648usize,
        "Offset of field: weir_pool_stats::plans_ended_share",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plans_ended_announced) as usize - ptr as usize
        },
        656usize,
        "Offset of field: weir_pool_stats::plans_ended_announced",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).plans_ended_memory) as usize - ptr as usize
        },
        664usize,
        "Offset of field: weir_pool_stats::plans_ended_memory",
    );
}
extern "C" {
    /// Fills *stats. O(1) in the number of buffers.
    pub fn weir_pool_stats_get(
        pool: weir_pool,
        stats: *mut weir_pool_stats,
    ) -> weir_result;
}
/**What a pool's codec did so far, to tell what pays: of the pages it compressed, the blocks by the method that coded them
(WEIR_CODEC_*), and the pages by what their elements were taken for (WEIR_ELEMENT_*). The pages' bytes are those of
compressed_in_bytes and compressed_out_bytes, tables included; a page that is coded twice counts twice.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_codec_stats {
    pub struct_size: u32,
    pub reserved: u32,
    /// by WEIR_CODEC_*
    pub methods: [weir_codec_share; 32usize],
    /// by WEIR_ELEMENT_*
    pub elements: [weir_codec_share; 32usize],
}
#[test]
fn bindgen_test_layout_weir_codec_stats() {
    const UNINIT: ::core::mem::MaybeUninit<weir_codec_stats> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_codec_stats>(),
        1032usize,
        "Size of weir_codec_stats",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_codec_stats>(),
        8usize,
        "Alignment of weir_codec_stats",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_codec_stats::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_codec_stats::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).methods) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_codec_stats::methods",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).elements) as usize - ptr as usize },
        520usize,
        "Offset of field: weir_codec_stats::elements",
    );
}
extern "C" {
    /// All zero without a COMPRESSED tier and a STORAGE tier. O(1). Errors: INVALID_ARGUMENT.
    pub fn weir_pool_codec_stats_get(
        pool: weir_pool,
        stats: *mut weir_codec_stats,
    ) -> weir_result;
}
pub const WEIR_POOL_DEVICE_PRESENT: _bindgen_ty_17 = 0;
/// weir_pool_remove_device is at work
pub const WEIR_POOL_DEVICE_LEAVING: _bindgen_ty_17 = 1;
pub const WEIR_POOL_DEVICE_LOST: _bindgen_ty_17 = 2;
/// What has become of a device of a pool.
pub type _bindgen_ty_17 = ::core::ffi::c_uint;
/// Per-device numbers of a pool.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_pool_device_stats {
    pub struct_size: u32,
    /// which
    pub device: weir_device,
    /// bytes it may hold, after any reduction by DEVICE_OOM
    pub budget: u64,
    /// held from the system
    pub bytes: u64,
    /// of those, not in use
    pub free_bytes: u64,
    /// of those, held
    pub held_bytes: u64,
    /// bytes of a small page
    pub page_size: u64,
    /// bytes of a large page
    pub large_page_size: u64,
    /// the most ever held from the system, or since weir_pool_reset_peak()
    pub peak_bytes: u64,
    /// held, where there is no VMM
    pub segments: u64,
    /// given back to the system after idle_grace_ns
    pub returned_bytes: u64,
    /// WEIR_POOL_DEVICE_*
    pub state: u32,
    pub reserved: u32,
    /// bytes of memory the device has, whatever the budget; 0 = not known
    pub memory_total: u64,
}
#[test]
fn bindgen_test_layout_weir_pool_device_stats() {
    const UNINIT: ::core::mem::MaybeUninit<weir_pool_device_stats> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_pool_device_stats>(),
        96usize,
        "Size of weir_pool_device_stats",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_pool_device_stats>(),
        8usize,
        "Alignment of weir_pool_device_stats",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_pool_device_stats::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_pool_device_stats::device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).budget) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_pool_device_stats::budget",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_pool_device_stats::bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_bytes) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_pool_device_stats::free_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).held_bytes) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_pool_device_stats::held_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).page_size) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_pool_device_stats::page_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).large_page_size) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_pool_device_stats::large_page_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).peak_bytes) as usize - ptr as usize },
        56usize,
        "Offset of field: weir_pool_device_stats::peak_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).segments) as usize - ptr as usize },
        64usize,
        "Offset of field: weir_pool_device_stats::segments",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).returned_bytes) as usize - ptr as usize },
        72usize,
        "Offset of field: weir_pool_device_stats::returned_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).state) as usize - ptr as usize },
        80usize,
        "Offset of field: weir_pool_device_stats::state",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        84usize,
        "Offset of field: weir_pool_device_stats::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).memory_total) as usize - ptr as usize },
        88usize,
        "Offset of field: weir_pool_device_stats::memory_total",
    );
}
extern "C" {
    /// Fills *stats. Errors: INVALID_ARGUMENT (`device` is not of the pool).
    pub fn weir_pool_device_stats_get(
        pool: weir_pool,
        device: weir_device,
        stats: *mut weir_pool_device_stats,
    ) -> weir_result;
}
extern "C" {
    /// Counts peak_bytes anew, from what is held now: for the peak of one phase of a program.
    pub fn weir_pool_reset_peak(pool: weir_pool, device: weir_device) -> weir_result;
}
extern "C" {
    /**Writes a JSON document of the pool, its devices, clients and buffers: at most `capacity` bytes, always
NUL-terminated if capacity > 0. *needed (may be NULL) gets the full size with the NUL. Stops nothing, and looks at 1000 buffers
at a time under the pool's lock, and at no further one after 4096 pages. Each buffer is told as it was at one moment, but the whole
is of several: a buffer that is made or destroyed meanwhile is there once or not at all, and counters need not be the sums of
buffers. INCOMPLETE if it was cut; `text` may be NULL with a capacity of 0.*/
    pub fn weir_pool_snapshot(
        pool: weir_pool,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        needed: *mut usize,
    ) -> weir_result;
}
/// memory held from the system, used or not: granule, segment, chunk or spill files
pub const WEIR_PIECE_RESERVED: _bindgen_ty_18 = 0;
/// the latest version, which lies nowhere else
pub const WEIR_PIECE_ONLY: _bindgen_ty_18 = 1;
/// the latest version, which lies elsewhere too
pub const WEIR_PIECE_COPY: _bindgen_ty_18 = 2;
/// an older version, or one that is being written
pub const WEIR_PIECE_STALE: _bindgen_ty_18 = 3;
/// nothing written yet, or discarded: reads as zero
pub const WEIR_PIECE_UNWRITTEN: _bindgen_ty_18 = 4;
/// on its way in or out
pub const WEIR_PIECE_MOVING: _bindgen_ty_18 = 5;
/// of a destroyed buffer; the first to be evicted, or taken over by one of its shape
pub const WEIR_PIECE_KEPT: _bindgen_ty_18 = 6;
/// What a weir_piece tells of the bytes in it.
pub type _bindgen_ty_18 = ::core::ffi::c_uint;
/// A run of memory and what lies in it. Fixed size: 96 bytes.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_piece {
    /// WEIR_TIER_DEVICE, _HOST, _COMPRESSED or _STORAGE
    pub tier: u32,
    /// DEVICE: whose memory; else WEIR_DEVICE_HOST
    pub device: weir_device,
    /// WEIR_PIECE_*
    pub state: u32,
    pub reserved: u32,
    /// DEVICE: the granule's number, or without VMM the segment's address; HOST: the chunk; else 0
    pub container: u64,
    /// in the container
    pub offset: u64,
    /// of memory; below HOST what the coded bytes take
    pub bytes: u64,
    /// of its first byte in the buffer
    pub buffer_offset: u64,
    /// the buffer's
    pub tag: u64,
    /// NULL: no buffer's, or (below HOST) that of several small buffers
    pub buffer: weir_buffer,
    /// 0
    pub reserved2: [u64; 4usize],
}
#[test]
fn bindgen_test_layout_weir_piece() {
    const UNINIT: ::core::mem::MaybeUninit<weir_piece> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(::core::mem::size_of::<weir_piece>(), 96usize, "Size of weir_piece");
    assert_eq!(::core::mem::align_of::<weir_piece>(), 8usize, "Alignment of weir_piece");
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).tier) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_piece::tier",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_piece::device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).state) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_piece::state",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        12usize,
        "Offset of field: weir_piece::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).container) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_piece::container",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).offset) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_piece::offset",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).bytes) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_piece::bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).buffer_offset) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_piece::buffer_offset",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).tag) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_piece::tag",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).buffer) as usize - ptr as usize },
        56usize,
        "Offset of field: weir_piece::buffer",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved2) as usize - ptr as usize },
        64usize,
        "Offset of field: weir_piece::reserved2",
    );
}
extern "C" {
    /**Tells where everything lies in a pool: *count pieces, of which the first `capacity` are written. Each thing
held from the system is a WEIR_PIECE_RESERVED; the other pieces lie in those, and overlap none of their kind. In no order.
INCOMPLETE: `pieces` had no room for all (*count says how many there are, at that moment; `pieces` may be NULL with a capacity of 0).
A granule on its way between a free list and a page is left out, and so is the caller's own memory (weir_host_register). Any thread. Walks all pages under the pool's lock,
in one taking: for tools, not for every frame.*/
    pub fn weir_pool_map(
        pool: weir_pool,
        pieces: *mut weir_piece,
        capacity: usize,
        count: *mut usize,
    ) -> weir_result;
}
/// keep one address for life, also below a page; NOT_SUPPORTED without VMM
pub const WEIR_BUFFER_STABLE_ADDRESS: _bindgen_ty_19 = 1;
/**The memory of every copy of its bytes is overwritten with zeros when the copy ends, not only before another client sees it: on
devices, in HOST, in COMPRESSED, in staging that it passed, and in spill files, where zeros of the same length are written. It
is done by the time that the call, or the background work, that ended the copy is over. Memory that a transfer under way still
reads is overwritten after the transfer, in the next call that moves pages. weir_buffer_destroy, weir_pool_trim,
weir_pool_remove_device and weir_pool_destroy wait for such transfers. Device memory that the caller's work still uses when
its buffer is destroyed is overwritten when Weir takes it back: by weir_pool_trim or weir_pool_destroy at the latest. An older
version that its own pages on a device still hold is overwritten with them. A write that fails is tried again, by trim too; its place is not
reused until then. The caller's registered memory and a lost device are not overwritten. A drive may keep old blocks
whatever is written over them: WEIR_POOL_ENCRYPT_STORAGE is the answer there.*/
pub const WEIR_BUFFER_SCRUB: _bindgen_ty_19 = 2;
/**LOSSY, and never chosen by Weir: its floats (`element` must be WEIR_ELEMENT_F32) may come back rounded to the nearest value of
bf16, or of f16, ties to even, once they have been demoted to COMPRESSED; they take half the room there, or less. An element is wrong by at
most |x| / 2^8 (2^-134 for denormals) with bf16, |x| / 2^11 (2^-25 below 2^-14) with f16. NaNs, infinities, zeros and what would
become infinite come back as they are, but for the lower bits of a NaN's payload. Rounding again changes nothing more. This may
happen at any time when the buffer is not leased. On devices, in HOST, and in STORAGE when it is reached past COMPRESSED, nothing is
rounded; nor are buffers below a page. WEIR_POOL_CHECKSUM_HOST does not cover such buffers in HOST.*/
pub const WEIR_BUFFER_LOSSY_BF16: _bindgen_ty_19 = 4;
/**LOSSY, and never chosen by Weir: its floats (`element` must be WEIR_ELEMENT_F32) may come back rounded to the nearest value of
bf16, or of f16, ties to even, once they have been demoted to COMPRESSED; they take half the room there, or less. An element is wrong by at
most |x| / 2^8 (2^-134 for denormals) with bf16, |x| / 2^11 (2^-25 below 2^-14) with f16. NaNs, infinities, zeros and what would
become infinite come back as they are, but for the lower bits of a NaN's payload. Rounding again changes nothing more. This may
happen at any time when the buffer is not leased. On devices, in HOST, and in STORAGE when it is reached past COMPRESSED, nothing is
rounded; nor are buffers below a page. WEIR_POOL_CHECKSUM_HOST does not cover such buffers in HOST.*/
pub const WEIR_BUFFER_LOSSY_F16: _bindgen_ty_19 = 8;
/// Flags of a buffer.
pub type _bindgen_ty_19 = ::core::ffi::c_uint;
/// stripes in turn, so many for each device as its weight says
pub const WEIR_SHARD_STRIPED: _bindgen_ty_20 = 1;
/// one run of bytes for each device, in their order, as long as its weight says
pub const WEIR_SHARD_BLOCKED: _bindgen_ty_20 = 2;
/// How a buffer is dealt out.
pub type _bindgen_ty_20 = ::core::ffi::c_uint;
/**How one buffer is dealt out to several devices of the pool, for what is larger than one device, or is computed on by all of
them. It has one address, the same on all of these devices; each of its pages is brought to the device that the layout
names, and used by the others over their links. docs/sharding.md.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_shard_desc {
    pub struct_size: u32,
    /// WEIR_SHARD_*
    pub policy: u32,
    /// 1 to 28 different ones of the pool, each reached directly by all others: copied
    pub devices: *const weir_device,
    /// of each device, 1 to 65535: copied. NULL: all alike
    pub weights: *const u32,
    /// entries of `devices`, and of `weights`
    pub device_count: u32,
    /// 0
    pub reserved: u32,
    /// bytes of a stripe, a multiple of the pool's page size; 0: Weir chooses a page's. Blocks have none: 0
    pub stripe: u64,
}
#[test]
fn bindgen_test_layout_weir_shard_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_shard_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_shard_desc>(),
        40usize,
        "Size of weir_shard_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_shard_desc>(),
        8usize,
        "Alignment of weir_shard_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_shard_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).policy) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_shard_desc::policy",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).devices) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_shard_desc::devices",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).weights) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_shard_desc::weights",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_count) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_shard_desc::device_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        28usize,
        "Offset of field: weir_shard_desc::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).stripe) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_shard_desc::stripe",
    );
}
/// What a buffer is made with.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_buffer_desc {
    pub struct_size: u32,
    /// WEIR_PRIORITY_*
    pub priority: i32,
    /// WEIR_BUFFER_*
    pub flags: u64,
    /// > 0
    pub size: u64,
    /// of its address; a power of two up to the page size; 0 = 256
    pub alignment: u64,
    /// NULL = the pool's own
    pub client: weir_client,
    /// where it is expected to be used; must be of the pool. Or WEIR_DEVICE_ANY: Weir chooses (below)
    pub home: weir_device,
    /**WEIR_ELEMENT_*: what its bytes are, if known. They are looked at all the same, so this helps only
where a look is not enough, and a wrong one costs next to nothing. Not for buffers below a page.*/
    pub element: u32,
    /// the caller's; shown in snapshots
    pub tag: u64,
    /**those that will use it, WEIR_DEVICE_HOST for leases of the CPU: copied. One that is listed n times
uses it n times as often. They count where Weir chooses the home, and forbid nothing.*/
    pub users: *const weir_device,
    /// entries of `users`, at most 1024; 0 = not known
    pub user_count: u32,
    /// 0
    pub reserved: u32,
    /**NULL: all of it is at home on one device. Else `home` is the first of the shards' devices (or
left at WEIR_DEVICE_DEFAULT or WEIR_DEVICE_ANY), and `users` is empty. Copied. Each of several
needs WEIR_CAP_SHARED_RANGE: else NOT_SUPPORTED. A size below a page takes a page of its own.*/
    pub shards: *const weir_shard_desc,
    /**what errors, reports and snapshots call it: as for weir_buffer_set_name. Copied; NULL: nothing.
weir_buffer_place looks at none.*/
    pub name: *const ::core::ffi::c_char,
}
#[test]
fn bindgen_test_layout_weir_buffer_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_buffer_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_buffer_desc>(),
        88usize,
        "Size of weir_buffer_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_buffer_desc>(),
        8usize,
        "Alignment of weir_buffer_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_buffer_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).priority) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_buffer_desc::priority",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_buffer_desc::flags",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).size) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_buffer_desc::size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).alignment) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_buffer_desc::alignment",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).client) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_buffer_desc::client",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).home) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_buffer_desc::home",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).element) as usize - ptr as usize },
        44usize,
        "Offset of field: weir_buffer_desc::element",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).tag) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_buffer_desc::tag",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).users) as usize - ptr as usize },
        56usize,
        "Offset of field: weir_buffer_desc::users",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).user_count) as usize - ptr as usize },
        64usize,
        "Offset of field: weir_buffer_desc::user_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        68usize,
        "Offset of field: weir_buffer_desc::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).shards) as usize - ptr as usize },
        72usize,
        "Offset of field: weir_buffer_desc::shards",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).name) as usize - ptr as usize },
        80usize,
        "Offset of field: weir_buffer_desc::name",
    );
}
extern "C" {
    /**Creates a buffer; no device memory is taken before it is first acquired. The caller owns *buffer. Any thread.
Errors: INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_HOST_MEMORY, BACKEND (no address space left), DEVICE_LOST (WEIR_DEVICE_ANY, and
every device of the pool is lost).*/
    pub fn weir_buffer_create(
        pool: weir_pool,
        desc: *const weir_buffer_desc,
        buffer: *mut weir_buffer,
    ) -> weir_result;
}
extern "C" {
    /**Homes for `count` buffers (1 to 4096) that are going to be made, chosen together: made one by one, a buffer takes room that a later
one needs more. homes[i] is for *descs[i], of which `size`, `flags`, `alignment`, `home` and the users count; a `home` other than
WEIR_DEVICE_ANY is kept, and the others are chosen with it in mind. Nothing is made or set aside: put the answer into `home`. Any thread; takes up
to milliseconds for some hundred buffers, without holding other calls up. Errors: INVALID_ARGUMENT, NOT_SUPPORTED (no device can be the
home of one of them), OUT_OF_HOST_MEMORY, DEVICE_LOST (all are); homes[] is not written then.*/
    pub fn weir_buffer_place(
        pool: weir_pool,
        descs: *const *const weir_buffer_desc,
        count: usize,
        homes: *mut weir_device,
    ) -> weir_result;
}
extern "C" {
    /**Ends a buffer; its contents are dropped. BUSY while it is leased or held (nothing is changed then). Work
of released leases still in flight is waited for in the background: its memory is charged until then.*/
    pub fn weir_buffer_destroy(pool: weir_pool, buffer: weir_buffer) -> weir_result;
}
/// Where the bytes of a buffer are.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_buffer_info {
    pub struct_size: u32,
    /// where it is expected to be used
    pub home: weir_device,
    /// bytes, as asked for
    pub size: u64,
    /// the caller's
    pub tag: u64,
    /// on the home device; 0 if it has none at present
    pub address: u64,
    /// on the home device; of a sharded buffer, each page's own
    pub device_bytes: u64,
    /// on other devices of the pool, and not on the home device
    pub peer_bytes: u64,
    /// in HOST, and on no device
    pub host_bytes: u64,
    /// of device_bytes, those that are in HOST too (clean)
    pub both_bytes: u64,
    /// never written, or discarded: they read as zero
    pub unwritten_bytes: u64,
    /// lost with a device
    pub lost_bytes: u64,
    /// unreleased leases on the buffer
    pub leases: u32,
    /// WEIR_PRIORITY_*: the buffer's own, as set last, plus its client's; a tenant's: its slab's
    pub priority: i32,
    /// holds not yet undone
    pub held: u32,
    /// 0 for a tenant of a slab
    pub pages: u32,
    /// in COMPRESSED, and neither on a device nor in HOST
    pub compressed_bytes: u64,
    /// in STORAGE, and nowhere else
    pub storage_bytes: u64,
}
#[test]
fn bindgen_test_layout_weir_buffer_info() {
    const UNINIT: ::core::mem::MaybeUninit<weir_buffer_info> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_buffer_info>(),
        112usize,
        "Size of weir_buffer_info",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_buffer_info>(),
        8usize,
        "Alignment of weir_buffer_info",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_buffer_info::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).home) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_buffer_info::home",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).size) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_buffer_info::size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).tag) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_buffer_info::tag",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).address) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_buffer_info::address",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device_bytes) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_buffer_info::device_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).peer_bytes) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_buffer_info::peer_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).host_bytes) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_buffer_info::host_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).both_bytes) as usize - ptr as usize },
        56usize,
        "Offset of field: weir_buffer_info::both_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).unwritten_bytes) as usize - ptr as usize },
        64usize,
        "Offset of field: weir_buffer_info::unwritten_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).lost_bytes) as usize - ptr as usize },
        72usize,
        "Offset of field: weir_buffer_info::lost_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).leases) as usize - ptr as usize },
        80usize,
        "Offset of field: weir_buffer_info::leases",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).priority) as usize - ptr as usize },
        84usize,
        "Offset of field: weir_buffer_info::priority",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).held) as usize - ptr as usize },
        88usize,
        "Offset of field: weir_buffer_info::held",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).pages) as usize - ptr as usize },
        92usize,
        "Offset of field: weir_buffer_info::pages",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).compressed_bytes) as usize - ptr as usize
        },
        96usize,
        "Offset of field: weir_buffer_info::compressed_bytes",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).storage_bytes) as usize - ptr as usize },
        104usize,
        "Offset of field: weir_buffer_info::storage_bytes",
    );
}
extern "C" {
    /// Where the bytes [offset, offset+length) are, in whole pages clipped to the range. Stops nothing.
    pub fn weir_buffer_info_get(
        pool: weir_pool,
        buffer: weir_buffer,
        offset: u64,
        length: u64,
        info: *mut weir_buffer_info,
    ) -> weir_result;
}
/// A run of bytes of a buffer that one device is home to. Fixed size: 32 bytes.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_shard {
    /// of the first byte, in the buffer
    pub offset: u64,
    /// bytes
    pub length: u64,
    /// whose they are
    pub device: weir_device,
    pub reserved: u32,
    pub reserved2: u64,
}
#[test]
fn bindgen_test_layout_weir_shard() {
    const UNINIT: ::core::mem::MaybeUninit<weir_shard> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(::core::mem::size_of::<weir_shard>(), 32usize, "Size of weir_shard");
    assert_eq!(::core::mem::align_of::<weir_shard>(), 8usize, "Alignment of weir_shard");
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).offset) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_shard::offset",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).length) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_shard::length",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).device) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_shard::device",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        20usize,
        "Offset of field: weir_shard::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved2) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_shard::reserved2",
    );
}
extern "C" {
    /**The layout of a buffer, from the run on that byte `offset` is in: *count runs, of which the first `capacity` are written
(INCOMPLETE: not all). They end at whole pages, but for the last, and two that follow each other are of two devices; a buffer
without shards is one run on its home. Where the bytes are at present is weir_buffer_info_get's to
tell. The layout changes only when a device leaves the pool. Any thread. Errors: INVALID_ARGUMENT, INVALID_HANDLE.*/
    pub fn weir_buffer_shards(
        pool: weir_pool,
        buffer: weir_buffer,
        offset: u64,
        shards: *mut weir_shard,
        capacity: usize,
        count: *mut usize,
    ) -> weir_result;
}
extern "C" {
    /**Copies bytes out to `destination`, from whatever tier they are on; nothing is promoted. Waits for the
work that writes them, and for the copy. LEASE_CONFLICT against an unreleased write lease on the range, or WEIR_HOLD_ALONE.*/
    pub fn weir_buffer_read(
        pool: weir_pool,
        buffer: weir_buffer,
        offset: u64,
        length: u64,
        destination: *mut ::core::ffi::c_void,
    ) -> weir_result;
}
extern "C" {
    /**Copies bytes in. Waits for work that uses the range, and for the copy. Pages resident on a device are
written there, others in HOST: OVER_BUDGET if that is full. LEASE_CONFLICT against any unreleased lease on
the range, or a hold that forbids writing (weir_hold_as). If it fails, bytes of the range before the failure may already be new; none outside change.*/
    pub fn weir_buffer_write(
        pool: weir_pool,
        buffer: weir_buffer,
        offset: u64,
        length: u64,
        source: *const ::core::ffi::c_void,
    ) -> weir_result;
}
pub const WEIR_ADVISE_NORMAL: _bindgen_ty_21 = 0;
/// not needed soon: first choice for eviction until its next use
pub const WEIR_ADVISE_COLD: _bindgen_ty_21 = 1;
/// same as a prefetch of the range to the home device
pub const WEIR_ADVISE_WILL_NEED: _bindgen_ty_21 = 2;
/// used once and not again for long: evicted first after each use
pub const WEIR_ADVISE_STREAMING: _bindgen_ty_21 = 3;
/// What weir_advise is told.
pub type _bindgen_ty_21 = ::core::ffi::c_uint;
extern "C" {
    /// A hint; it may be ignored and never changes contents. Lasts until the next advice.
    pub fn weir_advise(
        pool: weir_pool,
        buffer: weir_buffer,
        offset: u64,
        length: u64,
        advice: u32,
    ) -> weir_result;
}
extern "C" {
    /**The contents of the range are no longer needed: pages wholly inside it are dropped without a copy and
read as zero from then on; bytes of pages only partly inside are left as they are. Waits for pages that Weir is
moving. LEASE_CONFLICT against an unreleased lease on the range, or a hold that forbids writing; a shared one zeroes held pages.*/
    pub fn weir_discard(
        pool: weir_pool,
        buffer: weir_buffer,
        offset: u64,
        length: u64,
    ) -> weir_result;
}
extern "C" {
    /**Gives the buffer a name, or another: UTF-8, copied; its first 255 bytes are kept, up to the end of a character. NULL or "" takes it
away. Names need not differ. Error texts, reports and snapshots have them, with a backslash, an x and two hexadecimal digits for
each control character and byte that is no UTF-8. A buffer without a name costs no memory for one. Any thread. Errors:
INVALID_HANDLE, OUT_OF_HOST_MEMORY (it keeps the name that it had).*/
    pub fn weir_buffer_set_name(
        pool: weir_pool,
        buffer: weir_buffer,
        name: *const ::core::ffi::c_char,
    ) -> weir_result;
}
extern "C" {
    /**Writes the buffer's name as it was given, cut to what is kept: at most `capacity` bytes, always NUL-terminated if capacity > 0. *needed
(may be NULL) gets the full size with the NUL; that of "" where it has none. INCOMPLETE if it was cut; `text` may be NULL with a
capacity of 0. Any thread. Errors: INVALID_HANDLE, INVALID_ARGUMENT.*/
    pub fn weir_buffer_name(
        pool: weir_pool,
        buffer: weir_buffer,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        needed: *mut usize,
    ) -> weir_result;
}
extern "C" {
    /**Changes the eviction class: WEIR_PRIORITY_*, to which its client's is added as at its creation. A tenant of a slab has its slab's class
until it gets pages of its own, as it does when it is used on another device; it takes this one on then. What a plan has
decided by the old class stands (docs/policies.md). Any thread. Errors: INVALID_HANDLE, INVALID_ARGUMENT, OUT_OF_HOST_MEMORY.*/
    pub fn weir_buffer_set_priority(
        pool: weir_pool,
        buffer: weir_buffer,
        priority: i32,
    ) -> weir_result;
}
extern "C" {
    /**Makes the whole buffer resident on `device` and keeps it there until weir_unhold, without a lease: for
captured graphs and exported memory. Returns when the bytes are there. Held bytes count
against the budget of every later acquire. What is written to the held memory, by any code, is the buffer's latest version, until
weir_unhold and after it. Leases on `device` are granted meanwhile, and so are weir_buffer_write and weir_discard: all of
them use the held memory, and their order with the work under the hold is the caller's. A lease elsewhere that reads, and
weir_buffer_read, copy from the held memory each time; one that writes, the CPU's too, is refused: LEASE_CONFLICT. Holds nest;
LEASE_CONFLICT while the buffer is leased for writing, or held on another device or in another mode.
Other errors as weir_acquire. The same as weir_hold_as with WEIR_READ_WRITE and no flags.*/
    pub fn weir_hold(
        pool: weir_pool,
        buffer: weir_buffer,
        device: weir_device,
        address: *mut u64,
    ) -> weir_result;
}
/// With WEIR_READ_WRITE: while it lasts, leases, reads, writes and discards of the buffer are refused: LEASE_CONFLICT.
pub const WEIR_HOLD_ALONE: _bindgen_ty_22 = 1;
/// Flags of weir_hold_as.
pub type _bindgen_ty_22 = ::core::ffi::c_uint;
extern "C" {
    /**weir_hold in a mode. WEIR_READ: the holder must not write the buffer, and leases that write, weir_buffer_write and weir_discard
are refused (LEASE_CONFLICT); copies elsewhere stay good. WEIR_READ_WRITE: as weir_hold, or with WEIR_HOLD_ALONE for its holder
alone. Holds with WEIR_READ nest, and so do shared ones with WEIR_READ_WRITE; every other pair, and a second device, is
LEASE_CONFLICT. A first hold is refused, with LEASE_CONFLICT, by an unreleased lease that writes; with WEIR_HOLD_ALONE by any.
INVALID_ARGUMENT: another mode or flag, or WEIR_HOLD_ALONE with WEIR_READ. docs/leases.md has every call against every mode.*/
    pub fn weir_hold_as(
        pool: weir_pool,
        buffer: weir_buffer,
        device: weir_device,
        mode: u32,
        flags: u64,
        address: *mut u64,
    ) -> weir_result;
}
extern "C" {
    /// Undoes one hold, whatever its mode. The caller has made sure that no work enqueued under the hold is still running.
    pub fn weir_unhold(pool: weir_pool, buffer: weir_buffer) -> weir_result;
}
/// the memory's contents become the buffer's
pub const WEIR_HOST_LOAD: _bindgen_ty_23 = 1;
/// Flags of weir_host_register.
pub type _bindgen_ty_23 = ::core::ffi::c_uint;
extern "C" {
    /**Gives the buffer `memory` (of at least its size, page-aligned) as the home of its HOST
copies: what is demoted goes there and is not charged to the host budget. With WEIR_HOST_LOAD the
memory's contents become the buffer's. The memory must stay valid and untouched until weir_host_unregister or the
buffer's end. Not for tenants of slabs (buffers below a page): NOT_SUPPORTED. BUSY while leased.*/
    pub fn weir_host_register(
        pool: weir_pool,
        buffer: weir_buffer,
        memory: *mut ::core::ffi::c_void,
        flags: u64,
    ) -> weir_result;
}
extern "C" {
    /**Writes the buffer's latest contents to the registered memory, waits, and parts from it: the memory is
the caller's again and holds the contents; the buffer keeps them too. OVER_BUDGET if it then fits nowhere (nothing changed).*/
    pub fn weir_host_unregister(pool: weir_pool, buffer: weir_buffer) -> weir_result;
}
extern "C" {
    /**Stream-ordered allocation for frameworks' allocators: always resident, never moved, aligned to 256 bytes, charged as held.
`stream` may be NULL (ready for any stream). Memory may be reused from frees on the same stream at
once. *address is valid for work enqueued on `stream` from now on. Contents are zero or the same client's own old bytes.
Errors: OVER_BUDGET, WOULD_BLOCK, DEVICE_OOM, DEVICE_LOST, STREAM_CAPTURING, INVALID_ARGUMENT.*/
    pub fn weir_malloc(
        pool: weir_pool,
        device: weir_device,
        stream: weir_stream,
        size: u64,
        address: *mut u64,
    ) -> weir_result;
}
extern "C" {
    /**Frees memory of weir_malloc after the work enqueued so far on `stream` (NULL: now). Address 0 is allowed.
Errors: STREAM_CAPTURING, INVALID_HANDLE and INVALID_ARGUMENT (no such allocation) change nothing. After any other (BACKEND,
DEVICE_LOST: the end of the work could not be marked) the memory is freed all the same.*/
    pub fn weir_free(pool: weir_pool, stream: weir_stream, address: u64) -> weir_result;
}
/// many readers at a time
pub const WEIR_READ: _bindgen_ty_24 = 1;
/// alone
pub const WEIR_READ_WRITE: _bindgen_ty_24 = 2;
/// alone; the old contents of the range are not needed: it is undefined until written
pub const WEIR_DISCARD_WRITE: _bindgen_ty_24 = 3;
/// Modes of a use.
pub type _bindgen_ty_24 = ::core::ffi::c_uint;
/**Reads (and writes) straight from the peer where access allows: if every page of the use has its latest version in the
memory of one other device of the pool that the stream's device reaches directly, and not all of them are on the
stream's device, then the lease is on that memory. `address` is the other device's and valid on the stream's; the
pages stay there for as long as the lease's work, nothing is copied and the stream's device gives no memory for it.
Uses of one buffer in a set go together: all of them have the flag, and one device has them all, or none is used so.
Where that is not possible the use is an ordinary one. So are a writing use of a buffer below a page, one of never-written pages, and
one on a stream of WEIR_DEVICE_HOST. docs/leases.md#remote.*/
pub const WEIR_USE_ALLOW_REMOTE: _bindgen_ty_25 = 1;
/// Flags of a use.
pub type _bindgen_ty_25 = ::core::ffi::c_uint;
/// One use of a set. Fixed size: 64 bytes; reserved words must be zero.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_use {
    /// of the lease's pool
    pub buffer: weir_buffer,
    /// of the first byte
    pub offset: u64,
    /// WEIR_WHOLE = to the buffer's end
    pub length: u64,
    /// WEIR_READ, WEIR_READ_WRITE or WEIR_DISCARD_WRITE
    pub mode: u32,
    /// WEIR_USE_*; other bits must be 0
    pub flags: u32,
    /// out: where byte `offset` is, on the stream's device or in its reach (WEIR_USE_ALLOW_REMOTE)
    pub address: u64,
    pub reserved: [u64; 3usize],
}
#[test]
fn bindgen_test_layout_weir_use() {
    const UNINIT: ::core::mem::MaybeUninit<weir_use> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(::core::mem::size_of::<weir_use>(), 64usize, "Size of weir_use");
    assert_eq!(::core::mem::align_of::<weir_use>(), 8usize, "Alignment of weir_use");
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).buffer) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_use::buffer",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).offset) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_use::offset",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).length) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_use::length",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).mode) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_use::mode",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        28usize,
        "Offset of field: weir_use::flags",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).address) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_use::address",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_use::reserved",
    );
}
extern "C" {
    /**Answers the number of an operation's name in this pool, for weir_acquire_options and weir_operation: 1 and up, the same for the
same name for as long as the pool lives. A policy learns from it what a program does again and again. Ask once, outside of the
loop: passing the number costs an acquire nothing, while the name itself would be looked up each time. `name` is copied: bytes
as they are, 1 to 1023 of them before the 0. 65,536 names of a pool have numbers of their own; all further names get one that they share, and
weir_pool_stats.shared_operation_ids counts how often. Numbers of one pool mean nothing to another. Thread-safe.
Errors (*id is not written): INVALID_HANDLE, INVALID_ARGUMENT (a name that is NULL, empty or too long; id is NULL),
OUT_OF_HOST_MEMORY (the name has got no number). docs/operations.md tells what to name.*/
    pub fn weir_operation_id(
        pool: weir_pool,
        name: *const ::core::ffi::c_char,
        id: *mut u32,
    ) -> weir_result;
}
/// How to acquire. NULL in its place means all defaults.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_acquire_options {
    pub struct_size: u32,
    /// what weir_operation_id of the lease's pool answered; 0 = none. Another: INVALID_ARGUMENT
    pub operation_id: u32,
    /// WEIR_ACQUIRE_*
    pub flags: u64,
    /// how long to wait for other leases; 0 = do not, WEIR_INFINITE needs SOLE_HOLDER
    pub timeout_ns: u64,
    /**a name, looked up as by weir_operation_id, where operation_id is 0 (else it is not looked at); NULL = none. One
that is empty, too long or finds no memory counts as none. Not looked at after the call, be it weir_acquire_async*/
    pub operation: *const ::core::ffi::c_char,
}
#[test]
fn bindgen_test_layout_weir_acquire_options() {
    const UNINIT: ::core::mem::MaybeUninit<weir_acquire_options> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_acquire_options>(),
        32usize,
        "Size of weir_acquire_options",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_acquire_options>(),
        8usize,
        "Alignment of weir_acquire_options",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_acquire_options::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).operation_id) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_acquire_options::operation_id",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_acquire_options::flags",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).timeout_ns) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_acquire_options::timeout_ns",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).operation) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_acquire_options::operation",
    );
}
/**The caller's word that it holds no other lease (and no other thread waits for one it holds), so that
waiting without a deadline can't deadlock.*/
pub const WEIR_ACQUIRE_SOLE_HOLDER: _bindgen_ty_26 = 1;
/// Flags of weir_acquire.
pub type _bindgen_ty_26 = ::core::ffi::c_uint;
extern "C" {
    /**Acquires a set of uses on a stream, all or nothing. May block the thread on allocation, mapping and
copies that make room, also on the work of released leases that must end before their pages can go; when
it returns, the stream itself waits for whatever is still in flight. Uses of one buffer may overlap. At most 65535 uses.
Errors (nothing is changed by any of them, nor are addresses written):
LEASE_CONFLICT     an unreleased lease, or a hold, forbids one of the uses (use_index tells which);
OVER_BUDGET        the set, rounded to pages, exceeds what the device's budget or the client's
quota can ever give beside what is held; or HOST has no room for what must leave the device;
WOULD_BLOCK        it would fit if other leases were released; TIMEOUT when that took too long;
STREAM_CAPTURING, DATA_LOST, DEVICE_LOST, DEVICE_OOM, BACKEND, INVALID_*, OUT_OF_HOST_MEMORY.
A range conflicts byte by byte on one device; between devices ranges are widened to whole pages.
Thread-safe; the order of acquires on one stream is the order of the calls.*/
    pub fn weir_acquire(
        pool: weir_pool,
        stream: weir_stream,
        uses: *mut weir_use,
        count: usize,
        options: *const weir_acquire_options,
        lease: *mut weir_lease,
    ) -> weir_result;
}
/**Runs when an asynchronous acquire has ended: `lease` is the caller's if result is WEIR_SUCCESS; else the thread's last error
(weir_last_error) tells why. Called once, on a thread of the pool, with no lock held; it may call any function of Weir but those that wait or destroy the pool: weir_request_wait and
weir_pool_destroy answer BUSY there.*/
pub type weir_acquire_callback = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        result: weir_result,
        lease: weir_lease,
    ),
>;
extern "C" {
    /**As weir_acquire, on a thread of the pool. `uses` must stay valid until the callback runs (addresses are written there);
`options` is copied, with what it points to. Requests of a pool run in order. The caller closes *request
(may be NULL: closed by itself). NOT_SUPPORTED for a wrapped stream of a device without WEIR_CAP_STREAM_ANY_THREAD.*/
    pub fn weir_acquire_async(
        pool: weir_pool,
        stream: weir_stream,
        uses: *mut weir_use,
        count: usize,
        options: *const weir_acquire_options,
        callback: weir_acquire_callback,
        user: *mut ::core::ffi::c_void,
        request: *mut weir_request,
    ) -> weir_result;
}
extern "C" {
    /**Blocks until the callback has returned; *result (may be NULL) gets the acquire's result, and if that is an error the calling
thread's last error tells why. BUSY from within a callback of the pool's, if the request has not ended.*/
    pub fn weir_request_wait(
        request: weir_request,
        result: *mut weir_result,
    ) -> weir_result;
}
extern "C" {
    /// Asks a waiting acquire to end with CANCELLED; one that is already granted is not undone.
    pub fn weir_request_cancel(request: weir_request) -> weir_result;
}
extern "C" {
    /// Gives the handle back; the request itself goes on. NULL is allowed.
    pub fn weir_request_close(request: weir_request);
}
extern "C" {
    /**Ends the lease: what was enqueued on `stream` so far is the work it protects. `stream` is the lease's own or
another of the same device that has been made to wait for it. The lease is over whatever the result;
an error tells that a fence could not be recorded (the stream was synchronised instead) or that the
device is lost. Nothing is changed by INVALID_HANDLE (no such lease or stream) and INVALID_ARGUMENT (a stream
of another device).*/
    pub fn weir_release(lease: weir_lease, stream: weir_stream) -> weir_result;
}
extern "C" {
    /**Starts bringing the uses' bytes to the stream's device, as far as that needs no lease to end and no
page to leave that is needed sooner. Returns at once (with WEIR_POOL_NO_BACKGROUND it does the work itself); failures are silent (a later acquire
tells). Until they are used, or the stream has made as many acquires as the device's budget has pages, the bytes count as needed next:
other prefetches and background demotion leave their pages alone. What there is no room for waits for the next call. Modes other than
WEIR_READ mean the same as READ, DISCARD_WRITE reserves room only. INVALID_ARGUMENT or INVALID_HANDLE for one of the uses (use_index
tells which): none is brought. At most 2^24 uses.*/
    pub fn weir_prefetch(
        pool: weir_pool,
        stream: weir_stream,
        uses: *const weir_use,
        count: usize,
    ) -> weir_result;
}
/// One operation to come. Fixed size: 48 bytes.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_operation {
    /// may be NULL. Not looked at where operation_id is not 0, nor after the call
    pub name: *const ::core::ffi::c_char,
    /// copied; addresses are not written
    pub uses: *const weir_use,
    /// entries of `uses`
    pub use_count: u64,
    /// what weir_operation_id of the pool answered; 0 = none. Another: INVALID_ARGUMENT, and nothing is announced
    pub operation_id: u64,
    pub reserved: [u64; 2usize],
}
#[test]
fn bindgen_test_layout_weir_operation() {
    const UNINIT: ::core::mem::MaybeUninit<weir_operation> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_operation>(),
        48usize,
        "Size of weir_operation",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_operation>(),
        8usize,
        "Alignment of weir_operation",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).name) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_operation::name",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).uses) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_operation::uses",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).use_count) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_operation::use_count",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).operation_id) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_operation::operation_id",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_operation::reserved",
    );
}
/// forget what was announced on this stream before
pub const WEIR_ANNOUNCE_REPLACE: _bindgen_ty_27 = 1;
/// Flags of weir_announce.
pub type _bindgen_ty_27 = ::core::ffi::c_uint;
extern "C" {
    /**Tells what the next acquires on `stream` will use, in order; each acquire on the stream (async ones too)
consumes one announced operation. Announcements steer prefetch and eviction and are never an obligation:
a buffer destroyed meanwhile is skipped. Appends unless WEIR_ANNOUNCE_REPLACE; count 0 with it clears. At most
2^24 operations a call, of 65535 uses each.*/
    pub fn weir_announce(
        pool: weir_pool,
        stream: weir_stream,
        operations: *const weir_operation,
        count: usize,
        flags: u64,
    ) -> weir_result;
}
/**leases by stream, how long they last and what they waited for, moves of pages, evictions, budgets and refusals over
time: Chrome trace format (JSON), for ui.perfetto.dev or chrome://tracing*/
pub const WEIR_TRACE_TIMELINE: _bindgen_ty_28 = 0;
/**the calls that the program makes, with which it can be replayed: a trace .vmt of version 2
(docs/trace-format.md), compressed by zstd where the path ends in ".zst". It begins before the
context's first pool is made*/
pub const WEIR_TRACE_RECORDING: _bindgen_ty_28 = 1;
/// What a trace is.
pub type _bindgen_ty_28 = ::core::ffi::c_uint;
/// A trace.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_trace_desc {
    pub struct_size: u32,
    /// WEIR_TRACE_*
    pub kind: u32,
    /**of a file that is not there yet; "%p" is the process's number. It is made for its owner alone (0600) and no
link is followed. Copied*/
    pub path: *const ::core::ffi::c_char,
    /// the trace ends when its file has come to that (0 = 1 GiB; at least 64 KiB)
    pub max_bytes: u64,
}
#[test]
fn bindgen_test_layout_weir_trace_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_trace_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_trace_desc>(),
        24usize,
        "Size of weir_trace_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_trace_desc>(),
        8usize,
        "Alignment of weir_trace_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_trace_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).kind) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_trace_desc::kind",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).path) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_trace_desc::path",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).max_bytes) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_trace_desc::max_bytes",
    );
}
extern "C" {
    /**Starts a trace of all pools of the context, those that it has and those that it gets. A context has one of each kind at a time.
Calls on the pools put what they do into rings in memory, 4 MiB for each thread; a thread of the context's writes it down. A note
that finds its ring full is lost, and counted in the file. Where the file can't be written any more, the trace ends by itself, with one
WARNING; nothing else changes for the program. The file can be read at any moment, also after the process was killed.
The environment variables WEIR_TRACE=PATH (a timeline) and WEIR_RECORD=PATH (a recording) start one with the context, whose path gets a
number where there is such a file, and WEIR_TRACE_BYTES is its max_bytes, also as "64M" or "4G" (what can't be read is logged and counts as 0, less than 64 KiB as 64 KiB); they are ignored under secure execution. Any thread. Errors: INVALID_ARGUMENT, BUSY (one of that
kind runs; a recording, and the context has pools), IO (the file can't be made), OUT_OF_HOST_MEMORY.*/
    pub fn weir_trace_start(
        context: weir_context,
        desc: *const weir_trace_desc,
    ) -> weir_result;
}
extern "C" {
    /**Ends the trace of that kind; its file is whole when this returns. weir_context_destroy and the process's end do so, too. Any thread.
Errors: INVALID_ARGUMENT (none has been started since the last was stopped), IO (it had ended before: the text says why).*/
    pub fn weir_trace_stop(context: weir_context, kind: u32) -> weir_result;
}
extern "C" {
    /**Writes the figures of all pools of the context in Prometheus' text format 0.0.4 (Content-Type "text/plain; version=0.0.4"), for a
program that has an HTTP endpoint of its own; for others there is `weir exporter`. docs/metrics.md has every metric. At most `capacity`
bytes are written, always NUL-terminated if capacity > 0; *needed (may be NULL) gets the full size with the NUL. The figures of a pool
are of one moment: its lock is taken as long as for weir_pool_stats_get, once a pool. 256 pools are told of, and 64 clients of each
one by one; further ones are counted. Any thread. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. INCOMPLETE if it was cut; `text` may be
NULL with a capacity of 0. The next call may need more.*/
    pub fn weir_metrics_text(
        context: weir_context,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        needed: *mut usize,
    ) -> weir_result;
}
/// Names an allocation of one arena: index and generation, so that a stale one is recognised. Never 0.
pub type weir_arena_allocation = u64;
/// What an arena is made with.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_arena_desc {
    pub struct_size: u32,
    pub reserved: u32,
    /// units in the arena, 1 .. 2^48
    pub size: u64,
    /// sizes are rounded up to multiples of this power of two; 0 = 1
    pub quantum: u64,
}
#[test]
fn bindgen_test_layout_weir_arena_desc() {
    const UNINIT: ::core::mem::MaybeUninit<weir_arena_desc> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_arena_desc>(),
        24usize,
        "Size of weir_arena_desc",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_arena_desc>(),
        8usize,
        "Alignment of weir_arena_desc",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_arena_desc::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_arena_desc::reserved",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).size) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_arena_desc::size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).quantum) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_arena_desc::quantum",
    );
}
/// The counters of an arena.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_arena_stats {
    pub struct_size: u32,
    /// live ones
    pub allocations: u32,
    /// units in all
    pub size: u64,
    /// units in allocations
    pub used: u64,
    /// units in free ranges
    pub free: u64,
    /// exact; O(1) unless the largest was taken since: then a walk of the largest class
    pub largest_free: u64,
    /// how many
    pub free_ranges: u64,
    /// host memory of the nodes
    pub node_bytes: u64,
}
#[test]
fn bindgen_test_layout_weir_arena_stats() {
    const UNINIT: ::core::mem::MaybeUninit<weir_arena_stats> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_arena_stats>(),
        56usize,
        "Size of weir_arena_stats",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_arena_stats>(),
        8usize,
        "Alignment of weir_arena_stats",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_arena_stats::struct_size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).allocations) as usize - ptr as usize },
        4usize,
        "Offset of field: weir_arena_stats::allocations",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).size) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_arena_stats::size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).used) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_arena_stats::used",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_arena_stats::free",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).largest_free) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_arena_stats::largest_free",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_ranges) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_arena_stats::free_ranges",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).node_bytes) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_arena_stats::node_bytes",
    );
}
/// Ranges of one class of sizes.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_arena_class {
    /// how many
    pub free_ranges: u64,
    /// in them together
    pub free_units: u64,
    /// how many
    pub live_ranges: u64,
    /// in them together
    pub live_units: u64,
}
#[test]
fn bindgen_test_layout_weir_arena_class() {
    const UNINIT: ::core::mem::MaybeUninit<weir_arena_class> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_arena_class>(),
        32usize,
        "Size of weir_arena_class",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_arena_class>(),
        8usize,
        "Alignment of weir_arena_class",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_ranges) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_arena_class::free_ranges",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_units) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_arena_class::free_units",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).live_ranges) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_arena_class::live_ranges",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).live_units) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_arena_class::live_units",
    );
}
/// How an arena is cut up.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_arena_report {
    pub struct_size: u32,
    /**External fragmentation in parts per million: 1 - largest_free / free, rounded down; 0 if nothing is free. It is
the share of the free units that the largest request that could be met would leave (Wilson et al., "Dynamic
storage allocation: a survey and critical review", IWMM 1995, discuss it and its rivals).*/
    pub fragmentation_ppm: u32,
    /// units in all
    pub size: u64,
    /// units in live ranges
    pub used: u64,
    /// units in free ranges
    pub free: u64,
    /// how many
    pub free_ranges: u64,
    /// how many
    pub live_ranges: u64,
    /// units of the largest
    pub largest_free: u64,
    /// units of the largest
    pub largest_live: u64,
    /// free units that end the arena: used last, and what shrinking could take away
    pub tail: u64,
    /// by size
    pub classes: [weir_arena_class; 64usize],
}
#[test]
fn bindgen_test_layout_weir_arena_report() {
    const UNINIT: ::core::mem::MaybeUninit<weir_arena_report> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_arena_report>(),
        2120usize,
        "Size of weir_arena_report",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_arena_report>(),
        8usize,
        "Alignment of weir_arena_report",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_arena_report::struct_size",
    );
    assert_eq!(
        unsafe {
            ::core::ptr::addr_of!((*ptr).fragmentation_ppm) as usize - ptr as usize
        },
        4usize,
        "Offset of field: weir_arena_report::fragmentation_ppm",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).size) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_arena_report::size",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).used) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_arena_report::used",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free) as usize - ptr as usize },
        24usize,
        "Offset of field: weir_arena_report::free",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).free_ranges) as usize - ptr as usize },
        32usize,
        "Offset of field: weir_arena_report::free_ranges",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).live_ranges) as usize - ptr as usize },
        40usize,
        "Offset of field: weir_arena_report::live_ranges",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).largest_free) as usize - ptr as usize },
        48usize,
        "Offset of field: weir_arena_report::largest_free",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).largest_live) as usize - ptr as usize },
        56usize,
        "Offset of field: weir_arena_report::largest_live",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).tail) as usize - ptr as usize },
        64usize,
        "Offset of field: weir_arena_report::tail",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).classes) as usize - ptr as usize },
        72usize,
        "Offset of field: weir_arena_report::classes",
    );
}
/// A range as a walk shows it.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct weir_arena_range {
    /// 0: free
    pub allocation: weir_arena_allocation,
    /// of its first unit
    pub offset: u64,
    /// units
    pub size: u64,
}
#[test]
fn bindgen_test_layout_weir_arena_range() {
    const UNINIT: ::core::mem::MaybeUninit<weir_arena_range> = ::core::mem::MaybeUninit::uninit();
    let ptr = UNINIT.as_ptr();
    assert_eq!(
        ::core::mem::size_of::<weir_arena_range>(),
        24usize,
        "Size of weir_arena_range",
    );
    assert_eq!(
        ::core::mem::align_of::<weir_arena_range>(),
        8usize,
        "Alignment of weir_arena_range",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).allocation) as usize - ptr as usize },
        0usize,
        "Offset of field: weir_arena_range::allocation",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).offset) as usize - ptr as usize },
        8usize,
        "Offset of field: weir_arena_range::offset",
    );
    assert_eq!(
        unsafe { ::core::ptr::addr_of!((*ptr).size) as usize - ptr as usize },
        16usize,
        "Offset of field: weir_arena_range::size",
    );
}
/**Is shown a range, which is the walk's and good until the function returns. It may ask the arena (info, stats,
report, validate, another walk) but not change it: allocate, free and resize answer BUSY, and destroy is
forbidden. It must return, and throw nothing. Anything but WEIR_SUCCESS ends the walk.*/
pub type weir_arena_visitor = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        range: *const weir_arena_range,
    ) -> weir_result,
>;
extern "C" {
    /// The caller owns *arena. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY.
    pub fn weir_arena_create(
        desc: *const weir_arena_desc,
        arena: *mut weir_arena,
    ) -> weir_result;
}
extern "C" {
    /// Destroys it with all its allocations. NULL is allowed.
    pub fn weir_arena_destroy(arena: weir_arena);
}
extern "C" {
    /**Finds a free range of `size` units whose offset is a multiple of `alignment` (a power of two up to 2^30;
0 = 1). OVER_BUDGET: none was found, in about the time of a success. weir_last_error_info then has what was asked
and, as available, a free range that can be had: the longest of a few of the largest class.*/
    pub fn weir_arena_allocate(
        arena: weir_arena,
        size: u64,
        alignment: u64,
        allocation: *mut weir_arena_allocation,
        offset: *mut u64,
    ) -> weir_result;
}
extern "C" {
    /// Needs no memory. INVALID_HANDLE if the allocation is not a live one.
    pub fn weir_arena_free(
        arena: weir_arena,
        allocation: weir_arena_allocation,
    ) -> weir_result;
}
extern "C" {
    /// Where a live allocation lies. INVALID_HANDLE as for weir_arena_free.
    pub fn weir_arena_info(
        arena: weir_arena,
        allocation: weir_arena_allocation,
        offset: *mut u64,
        size: *mut u64,
    ) -> weir_result;
}
extern "C" {
    /// Adds units at the end, or takes free ones away from there. Shrinking: BUSY if the end is in use.
    pub fn weir_arena_resize(arena: weir_arena, size: u64) -> weir_result;
}
extern "C" {
    /// Fills *stats. O(1), but for largest_free.
    pub fn weir_arena_stats_get(
        arena: weir_arena,
        stats: *mut weir_arena_stats,
    ) -> weir_result;
}
extern "C" {
    /// Fills *report. Walks every range: O(n).
    pub fn weir_arena_report_get(
        arena: weir_arena,
        report: *mut weir_arena_report,
    ) -> weir_result;
}
extern "C" {
    /**Shows every range, live and free, in the order of their offsets and without gaps. O(n). Returns what ended it:
WEIR_SUCCESS after the last, or what the visitor returned.*/
    pub fn weir_arena_walk(
        arena: weir_arena,
        visitor: weir_arena_visitor,
        user: *mut ::core::ffi::c_void,
    ) -> weir_result;
}
extern "C" {
    /// Walks every node and checks every invariant; INTERNAL names the first that does not hold. O(n).
    pub fn weir_arena_validate(arena: weir_arena) -> weir_result;
}
