// SPDX-License-Identifier: Apache-2.0

//! Contexts: the loaded backends, the devices they found, and the links between them. A context is kept alive by whatever
//! was made of it, and ends with the last of them.

use crate::callback::Panics;
use crate::error::{check, text};
use crate::words::nanoseconds;
use crate::{Capabilities, Device, Error, LinkFigure, LinkKind, LogLevel, Result};
use std::ffi::{c_char, c_void, CStr, CString};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;
use weir_sys as sys;
use weir_sys::Init as _;

type Log = dyn Fn(LogLevel, &str) + Send + Sync;

/// What a log callback of C gets as `user`.
struct LogSink {
    log: Box<Log>,
    panics: Panics,
}

/// The root object: create one per process. It is a handle: a clone is the same context.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Arc<ContextInner>,
}

pub(crate) struct ContextInner {
    raw: sys::weir_context,
    owned: bool,
    /// Not a `Box`: C has a pointer into it, which a `Box` that is moved makes invalid.
    log: Option<Arc<LogSink>>,
}

// SAFETY: every function on a context may be called from any thread; the log's closure is Send and Sync.
unsafe impl Send for ContextInner {}
// SAFETY: as above.
unsafe impl Sync for ContextInner {}

impl Drop for ContextInner {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and no other code has it any more.
        if self.owned && unsafe { sys::weir_context_destroy(self.raw) } != sys::WEIR_SUCCESS {
            // A leaked lease keeps it alive, and it may log on.
            std::mem::forget(self.log.take());
        }
    }
}

/// How a context is to be opened.
///
/// ```
/// let context = weir::ContextOptions::new().options("host.devices=2;host.memory=64M").open()?;
/// assert_eq!(context.device_count()?, 2);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Default)]
pub struct ContextOptions {
    options: Option<String>,
    paths: Option<Vec<String>>,
    backends: Vec<sys::weir_backend_query_fn>,
    allocator: Option<sys::weir_allocator>,
    log: Option<Box<Log>>,
    flags: u64,
    start_timeout_ns: u64,
    natives: Vec<(String, *const c_void)>,
}

// SAFETY: the allocator's `user` may be used from any thread, as its contract says.
unsafe impl Send for ContextOptions {}

impl ContextOptions {
    /// All defaults.
    pub fn new() -> ContextOptions {
        ContextOptions::default()
    }

    /// Options of backends and of the context, `backend.key=value` joined by `;`. Without them the environment variable
    /// `WEIR_OPTIONS` is read.
    pub fn options(mut self, options: &str) -> ContextOptions {
        self.options = Some(options.to_owned());
        self
    }

    /// A backend library to load, beside those of the search folder. Files that every user may write to are refused.
    pub fn backend_path(mut self, path: &str) -> ContextOptions {
        self.paths.get_or_insert_with(Vec::new).push(path.to_owned());
        self
    }

    /// A backend that is linked into the program.
    ///
    /// # Safety
    /// `query` keeps to the backend ABI (`weir/backend.h`).
    pub unsafe fn backend(mut self, query: sys::weir_backend_query_fn) -> ContextOptions {
        self.backends.push(query);
        self
    }

    /// Where host memory for Weir's own bookkeeping is from.
    ///
    /// # Safety
    /// Both functions keep to `weir_allocator`: they may be called from any thread at any time while the context lives,
    /// and do not call Weir. Its reserved words are NULL.
    pub unsafe fn allocator(mut self, allocator: sys::weir_allocator) -> ContextOptions {
        self.allocator = Some(allocator);
        self
    }

    /// Receives the lines of the log, on any thread. It must not call Weir. A panic in it ends there, and is counted by
    /// [`Context::log_panics`].
    pub fn log(mut self, log: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> ContextOptions {
        self.log = Some(Box::new(log));
        self
    }

    /// Do not offer the built-in host backend.
    pub fn no_host_backend(mut self) -> ContextOptions {
        self.flags |= u64::from(sys::WEIR_CONTEXT_NO_HOST_BACKEND);
        self
    }

    /// Do not load what lies in the search folder beside the library.
    pub fn no_search(mut self) -> ContextOptions {
        self.flags |= u64::from(sys::WEIR_CONTEXT_NO_SEARCH);
        self
    }

    /// Keep the call stack of each buffer and allocation, for reports and snapshots. `WEIR_STACKS=1` in the environment does the same.
    pub fn keep_stacks(mut self) -> ContextOptions {
        self.flags |= u64::from(sys::WEIR_CONTEXT_STACKS);
        self
    }

    /// What the program has of a backend's runtime already, which it is to use in place of objects of its own: an engine's `VkDevice`.
    ///
    /// # Safety
    /// `handles` points to a struct of that backend's header, and what is in it is true and lives as that header says. The
    /// struct itself must live until [`ContextOptions::open`] returns.
    pub unsafe fn native(mut self, backend: &str, handles: *const c_void) -> ContextOptions {
        self.natives.push((backend.to_owned(), handles));
        self
    }

    /// How long a backend's runtime may take to start, 60 s unless told otherwise. [`Duration::ZERO`] = 60 s too.
    pub fn start_timeout(mut self, time: Duration) -> ContextOptions {
        self.start_timeout_ns = nanoseconds(time);
        self
    }

    /// Loads the backends and finds the devices.
    pub fn open(self) -> Result<Context> {
        let options = self.options.as_deref().map(|options| c_text("options", options)).transpose()?;
        let paths = self.paths.unwrap_or_default();
        let paths: Vec<CString> =
            paths.iter().map(|path| c_text("backend_path", path)).collect::<Result<_>>()?;
        let mut path_list: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
        path_list.push(ptr::null());
        let names: Vec<CString> =
            self.natives.iter().map(|native| c_text("native", &native.0)).collect::<Result<_>>()?;
        let natives: Vec<sys::weir_native> = (names.iter().zip(&self.natives))
            .map(|(name, native)| sys::weir_native { backend: name.as_ptr(), handles: native.1 })
            .collect();
        let log = self.log.map(|log| Arc::new(LogSink { log, panics: Panics::default() }));
        let mut desc = sys::weir_context_desc::INIT;
        desc.backend_count = count(self.backends.len())?;
        desc.flags = self.flags;
        if !self.backends.is_empty() {
            desc.backends = self.backends.as_ptr();
        }
        if !paths.is_empty() {
            desc.backend_paths = path_list.as_ptr();
        }
        desc.options = pointer(&options);
        if let Some(allocator) = self.allocator {
            desc.allocator = allocator;
        }
        if let Some(sink) = &log {
            desc.log = Some(log_line);
            desc.log_user = Arc::as_ptr(sink).cast_mut().cast();
        }
        desc.start_timeout_ns = self.start_timeout_ns;
        if !natives.is_empty() {
            desc.natives = natives.as_ptr();
            desc.native_count = count(natives.len())?;
        }
        let mut raw = ptr::null_mut();
        // SAFETY: everything the descriptor points to outlives the call, and the sink the context.
        check(unsafe { sys::weir_context_create(&desc, &mut raw) })?;
        Ok(Context { inner: Arc::new(ContextInner { raw, owned: true, log }) })
    }
}

/// A line of the log.
unsafe extern "C" fn log_line(user: *mut c_void, level: i32, line: *const c_char) {
    // SAFETY: `user` is the sink, which outlives the context; `line` is a text for the time of the call.
    unsafe {
        let sink = &*user.cast::<LogSink>();
        sink.panics.guard(|| {
            let line = CStr::from_ptr(line).to_string_lossy();
            (sink.log)(LogLevel::from_raw(level as u32), &line);
        });
    }
}

/// A text for C; one with a NUL inside is refused.
pub(crate) fn c_text(name: &str, value: &str) -> Result<CString> {
    CString::new(value)
        .map_err(|error| Error::invalid(format!("{name} has a NUL at byte {}", error.nul_position())))
}

/// The pointer to a text that may be absent.
pub(crate) fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

/// A length as C has it.
pub(crate) fn count(length: usize) -> Result<u32> {
    u32::try_from(length).map_err(|_| Error::invalid(format!("{length} entries are more than C can count")))
}

/// What became of one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackendInfo {
    /// Whether it started; else see `reason`.
    pub available: bool,
    /// How many devices it has.
    pub device_count: u32,
    /// The first of them; the others follow.
    pub first_device: Device,
    /// "host", "cuda", ...
    pub name: String,
    /// Of the runtime found, empty if none.
    pub version: String,
    /// Why it is not available, empty if it is.
    pub reason: String,
    /// The library it came from, "built-in" for the host backend, "linked" for those of the program.
    pub path: String,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Index of its backend.
    pub backend: u32,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Bytes of memory.
    pub memory_total: u64,
    /// Bytes free at the time of the call, as the runtime tells them.
    pub memory_free: u64,
    /// Smallest physical unit in bytes, 0 without virtual-memory management.
    pub granule: u64,
    /// The system's number of its NUMA node, if known.
    pub numa_node: Option<u32>,
    /// What it is called.
    pub name: String,
    /// "0000:17:00.0", empty if there is none.
    pub pci_address: String,
    /// The runtime's, all 0 if it tells none.
    pub uuid: [u8; 16],
    /// What partitions of one card have in common.
    pub parent: Device,
    /// Which of the card's partitions it is.
    pub partition: u32,
    /// How many of them there are; 1 = it is the whole card.
    pub partition_count: u32,
}

/// The path between two places.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkInfo {
    /// What joins them.
    pub kind: LinkKind,
    /// Bytes a second one way, 0 = unknown.
    pub bandwidth: u64,
    /// 0 = unknown.
    pub latency: Duration,
    /// Links in a row between the two.
    pub hops: u32,
    /// Whether copies need no host staging.
    pub direct: bool,
    /// Where `bandwidth` is from.
    pub source: LinkFigure,
    /// Where `reported_bandwidth` is from, never measured.
    pub reported_source: LinkFigure,
    /// What `bandwidth` is where nothing is measured.
    pub reported_bandwidth: u64,
    /// How many partitions of one card have this link in common.
    pub shared_with: u32,
}

impl Context {
    /// Opens a context with all defaults.
    pub fn new() -> Result<Context> {
        ContextOptions::new().open()
    }

    /// How many backends were found, also those that are not available.
    pub fn backend_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_backend_count(self.as_raw(), &mut count) })?;
        Ok(count)
    }

    /// What became of one backend.
    pub fn backend(&self, index: u32) -> Result<BackendInfo> {
        let mut info = sys::weir_backend_info::INIT;
        // SAFETY: the handle is live, and so are the texts as long as it.
        unsafe {
            check(sys::weir_backend_info_get(self.as_raw(), index, &mut info))?;
            Ok(BackendInfo {
                available: info.available != 0,
                device_count: info.device_count,
                first_device: Device(info.first_device),
                name: text(info.name),
                version: text(info.version),
                reason: text(info.reason),
                path: text(info.path),
            })
        }
    }

    /// All backends.
    pub fn backends(&self) -> Result<Vec<BackendInfo>> {
        (0..self.backend_count()?).map(|index| self.backend(index)).collect()
    }

    /// How many devices there are.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_device_count(self.as_raw(), &mut count) })?;
        Ok(count)
    }

    /// A device. Asks its runtime for the free memory.
    pub fn device(&self, device: Device) -> Result<DeviceInfo> {
        let mut info = sys::weir_device_info::INIT;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_device_info_get(self.as_raw(), device.0, &mut info) })?;
        Ok(DeviceInfo {
            backend: info.backend,
            capabilities: Capabilities(info.capabilities),
            memory_total: info.memory_total,
            memory_free: info.memory_free,
            granule: info.granule,
            numa_node: (info.numa_node != u32::MAX).then_some(info.numa_node),
            name: array_text(&info.name),
            pci_address: array_text(&info.pci_address),
            uuid: info.uuid,
            parent: Device(info.parent),
            partition: info.partition,
            partition_count: info.partition_count,
        })
    }

    /// The device that a text means: `"gpu"` is the GPU with the most free memory, `"gpu:1"` the second GPU, `"cuda:0"` the first
    /// of a backend, and a UUID or a PCI address that card. Of several with commas between the first that is there counts:
    /// `"gpu,host"` takes the host's memory only where there is no GPU. `""` is the environment variable `WEIR_DEVICE`, or
    /// `"gpu"` where that is not set. The error lists what there is.
    ///
    /// ```
    /// let context = weir::ContextOptions::new().options("host.devices=2;host.memory=64M").open()?;
    /// assert_eq!(context.find_device("host:1")?, weir::Device(1));
    /// # Ok::<(), weir::Error>(())
    /// ```
    pub fn find_device(&self, wish: &str) -> Result<Device> {
        let wish = c_text("wish", wish)?;
        let mut device = 0;
        // SAFETY: the handle is live, and the text ends with a zero.
        check(unsafe { sys::weir_device_find(self.as_raw(), wish.as_ptr(), &mut device) })?;
        Ok(Device(device))
    }

    /// Writes the runtime's own object behind an address of a lease, a `VkBuffer` and an offset, into `out`.
    /// [`Error::NotSupported`] where addresses are what the runtime takes.
    ///
    /// # Safety
    /// `out` points to a struct of the backend's header that `kind` names, and its size is set.
    pub unsafe fn native_memory(
        &self,
        device: Device,
        address: u64,
        kind: u32,
        out: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the handle is live; the rest is this function's contract.
        check(unsafe { sys::weir_native_memory(self.as_raw(), device.0, address, kind, out) })
    }

    /// All devices.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>> {
        (0..self.device_count()?).map(|index| self.device(Device(index))).collect()
    }

    /// The path between two places; either may be [`Device::HOST`].
    pub fn link(&self, from: Device, to: Device) -> Result<LinkInfo> {
        let mut info = sys::weir_link_info::INIT;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_link_info_get(self.as_raw(), from.0, to.0, &mut info) })?;
        Ok(LinkInfo {
            kind: LinkKind::from_raw(info.kind),
            bandwidth: info.bandwidth,
            latency: Duration::from_nanos(info.latency_ns),
            hops: info.hops,
            direct: info.direct != 0,
            source: LinkFigure::from_raw(info.source),
            reported_source: LinkFigure::from_raw(info.reported_source),
            reported_bandwidth: info.reported_bandwidth,
            shared_with: info.shared_with,
        })
    }

    /// How many panics of the log's closure were caught.
    pub fn log_panics(&self) -> u64 {
        self.inner.log.as_ref().map_or(0, |sink| sink.panics.count())
    }

    /// Ends the context, and tells if it can't: [`Error::Busy`] while something made of it is left. Dropping it does the
    /// same with the last of them, and tells nothing.
    pub fn close(self) -> Result<()> {
        let mut inner = Arc::try_unwrap(self.inner).map_err(|_| {
            Error::busy("the context is used by a pool, a stream or another clone of it in this program")
        })?;
        if !std::mem::replace(&mut inner.owned, false) {
            return Ok(());
        }
        // SAFETY: the handle is live, and no other code has it any more.
        let ended = check(unsafe { sys::weir_context_destroy(inner.raw) });
        if ended.is_err() {
            std::mem::forget(inner.log.take());
        }
        ended
    }

    /// The handle of C. It stays this context's.
    pub fn as_raw(&self) -> sys::weir_context {
        self.inner.raw
    }

    /// A context that other code owns: dropping this one leaves it alone.
    ///
    /// # Safety
    /// `raw` is a live context, and lives longer than all that is made of the one returned.
    pub unsafe fn from_raw(raw: sys::weir_context) -> Context {
        Context { inner: Arc::new(ContextInner { raw, owned: false, log: None }) }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Context").field(&self.as_raw()).finish()
    }
}

/// A text in an array that ends with a NUL.
fn array_text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A document of a call that says how long it is: it is asked again as long as it grows in between.
pub(crate) fn document(
    mut write: impl FnMut(*mut c_char, usize, &mut usize) -> sys::weir_result,
) -> Result<String> {
    let mut needed = 0;
    check(write(ptr::null_mut(), 0, &mut needed))?;
    loop {
        let mut bytes = vec![0u8; needed.saturating_add(256)];
        let result = write(bytes.as_mut_ptr().cast(), bytes.len(), &mut needed);
        check(result)?;
        if result == sys::WEIR_INCOMPLETE {
            continue;
        }
        bytes.truncate(needed.saturating_sub(1));
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_grows_while_it_is_asked_for_is_not_cut() {
        let mut lengths = [10usize, 400, 700, 700].into_iter();
        let text = document(|bytes, capacity, needed| {
            let length = lengths.next().expect("it ends when all has room");
            *needed = length + 1;
            for at in 0..capacity.min(*needed) {
                let last = at + 1 == capacity || at == length;
                // SAFETY: there are `capacity` bytes.
                unsafe { bytes.add(at).write(if last { 0 } else { b'x' as c_char }) };
            }
            let cut = capacity > 0 && *needed > capacity;
            if cut {
                sys::WEIR_INCOMPLETE
            } else {
                sys::WEIR_SUCCESS
            }
        });
        // There are 256 bytes to spare each time, which is too little twice.
        assert_eq!(text.unwrap(), "x".repeat(700));
        assert_eq!(lengths.next(), None);
    }
}
