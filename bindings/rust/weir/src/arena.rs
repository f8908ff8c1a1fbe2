// SPDX-License-Identifier: Apache-2.0

//! The offset allocator alone: it hands out ranges of a number line and touches no memory. An arena may be handed to another
//! thread, but not shared between threads; what changes it needs it alone, so that a walk can't.

use crate::callback::Carried;
use crate::error::check;
use crate::Result;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::ptr;
use weir_sys as sys;
use weir_sys::Init as _;

/// Hands out ranges of a number line.
///
/// ```
/// let mut arena = weir::Arena::new(1000)?;
/// let range = arena.allocate(100, 64)?;
/// assert_eq!(range.offset % 64, 0);
/// arena.free(range.allocation)?;
/// assert_eq!(arena.stats()?.used, 0);
/// # Ok::<(), weir::Error>(())
/// ```
pub struct Arena {
    /// A pointer, which keeps the arena from being shared between threads.
    raw: sys::weir_arena,
}

// SAFETY: an arena may be used on any thread, on one at a time.
unsafe impl Send for Arena {}

/// Names an allocation of one arena; a stale one is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArenaAllocation(pub u64);

/// Where an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaRange {
    /// Its name.
    pub allocation: ArenaAllocation,
    /// Its first unit.
    pub offset: u64,
    /// Units, rounded up to the quantum.
    pub size: u64,
}

/// A range as a walk shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaPiece {
    /// `None`: free.
    pub allocation: Option<ArenaAllocation>,
    /// Its first unit.
    pub offset: u64,
    /// Units.
    pub size: u64,
}

/// An arena's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStats {
    /// Live allocations.
    pub allocations: u32,
    /// Units in all.
    pub size: u64,
    /// Of those, allocated.
    pub used: u64,
    /// Of those, free.
    pub free: u64,
    /// The longest free range.
    pub largest_free: u64,
    /// How many free ranges there are.
    pub free_ranges: u64,
    /// Host memory of the nodes.
    pub node_bytes: u64,
}

/// Ranges of 2^k to 2^(k+1) - 1 units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaClass {
    /// Free ranges.
    pub free_ranges: u64,
    /// Units of those.
    pub free_units: u64,
    /// Live ranges.
    pub live_ranges: u64,
    /// Units of those.
    pub live_units: u64,
}

/// What a walk over all ranges found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaReport {
    /// External fragmentation in parts per million: 1 - largest free / free.
    pub fragmentation_ppm: u32,
    /// Units in all.
    pub size: u64,
    /// Of those, allocated.
    pub used: u64,
    /// Of those, free.
    pub free: u64,
    /// Free ranges.
    pub free_ranges: u64,
    /// Live ranges.
    pub live_ranges: u64,
    /// The longest free range.
    pub largest_free: u64,
    /// The longest live range.
    pub largest_live: u64,
    /// Free units that end the arena.
    pub tail: u64,
    /// By length: class k has the ranges of 2^k to 2^(k+1) - 1 units.
    pub classes: Vec<ArenaClass>,
}

/// What the closure of a walk is called through.
struct Walk<'a> {
    visit: &'a mut dyn FnMut(ArenaPiece) -> ControlFlow<()>,
    panic: Carried,
}

/// What ends a walk that the closure does not want to go on.
const STOP: sys::weir_result = 1;

/// Called for each range, on the calling thread.
unsafe extern "C" fn visit(user: *mut c_void, range: *const sys::weir_arena_range) -> sys::weir_result {
    // SAFETY: `user` is the `Walk` of the call under way; the range is good during this call.
    let (walk, range) = unsafe { (&mut *user.cast::<Walk<'_>>(), &*range) };
    let piece = ArenaPiece {
        allocation: (range.allocation != 0).then_some(ArenaAllocation(range.allocation)),
        offset: range.offset,
        size: range.size,
    };
    let Walk { visit, panic } = walk;
    match panic.run(ControlFlow::Break(()), || visit(piece)) {
        ControlFlow::Continue(()) => sys::WEIR_SUCCESS,
        ControlFlow::Break(()) => STOP,
    }
}

impl Arena {
    /// An arena of `size` units.
    pub fn new(size: u64) -> Result<Arena> {
        Arena::with_quantum(size, 0)
    }

    /// As [`Arena::new`]; sizes are rounded up to multiples of `quantum`, a power of two.
    pub fn with_quantum(size: u64, quantum: u64) -> Result<Arena> {
        let mut desc = sys::weir_arena_desc::INIT;
        desc.size = size;
        desc.quantum = quantum;
        let mut raw = ptr::null_mut();
        // SAFETY: the descriptor is initialised.
        check(unsafe { sys::weir_arena_create(&desc, &mut raw) })?;
        Ok(Arena { raw })
    }

    /// Finds a free range of `size` units whose offset is a multiple of `alignment` (a power of two; 0 = 1).
    /// [`Error::OverBudget`](crate::Error::OverBudget) if none was found.
    pub fn allocate(&mut self, size: u64, alignment: u64) -> Result<ArenaRange> {
        let (mut allocation, mut offset) = (0, 0);
        // SAFETY: the arena is live, and ours alone.
        check(unsafe { sys::weir_arena_allocate(self.raw, size, alignment, &mut allocation, &mut offset) })?;
        self.range(ArenaAllocation(allocation))
    }

    /// Frees an allocation.
    pub fn free(&mut self, allocation: ArenaAllocation) -> Result<()> {
        // SAFETY: the arena is live, and ours alone.
        check(unsafe { sys::weir_arena_free(self.raw, allocation.0) })
    }

    /// Where an allocation is.
    pub fn range(&self, allocation: ArenaAllocation) -> Result<ArenaRange> {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the arena is live, and on this thread only.
        check(unsafe { sys::weir_arena_info(self.raw, allocation.0, &mut offset, &mut size) })?;
        Ok(ArenaRange { allocation, offset, size })
    }

    /// Adds units at the end, or takes free ones away from there: [`Error::Busy`](crate::Error::Busy) if they are in use.
    pub fn resize(&mut self, size: u64) -> Result<()> {
        // SAFETY: the arena is live, and ours alone.
        check(unsafe { sys::weir_arena_resize(self.raw, size) })
    }

    /// Its numbers now.
    pub fn stats(&self) -> Result<ArenaStats> {
        let mut stats = sys::weir_arena_stats::INIT;
        // SAFETY: the arena is live, and on this thread only.
        check(unsafe { sys::weir_arena_stats_get(self.raw, &mut stats) })?;
        Ok(ArenaStats {
            allocations: stats.allocations,
            size: stats.size,
            used: stats.used,
            free: stats.free,
            largest_free: stats.largest_free,
            free_ranges: stats.free_ranges,
            node_bytes: stats.node_bytes,
        })
    }

    /// What a walk over all ranges finds.
    pub fn report(&self) -> Result<ArenaReport> {
        let mut report = sys::weir_arena_report::INIT;
        // SAFETY: the arena is live, and on this thread only.
        check(unsafe { sys::weir_arena_report_get(self.raw, &mut report) })?;
        let class = |class: &sys::weir_arena_class| ArenaClass {
            free_ranges: class.free_ranges,
            free_units: class.free_units,
            live_ranges: class.live_ranges,
            live_units: class.live_units,
        };
        Ok(ArenaReport {
            fragmentation_ppm: report.fragmentation_ppm,
            size: report.size,
            used: report.used,
            free: report.free,
            free_ranges: report.free_ranges,
            live_ranges: report.live_ranges,
            largest_free: report.largest_free,
            largest_live: report.largest_live,
            tail: report.tail,
            classes: report.classes.iter().map(class).collect(),
        })
    }

    /// Shows every range, live and free, in the order of their offsets, until the closure breaks. It may ask the arena. A panic
    /// in it ends the walk with [`Error::Panicked`](crate::Error::Panicked).
    pub fn walk(&self, mut visitor: impl FnMut(ArenaPiece) -> ControlFlow<()>) -> Result<()> {
        let mut walk = Walk { visit: &mut visitor, panic: Carried::new() };
        // SAFETY: the arena is live, and on this thread only; the closure can't change it.
        let result = check(unsafe {
            sys::weir_arena_walk(self.raw, Some(visit), (&mut walk as *mut Walk<'_>).cast())
        });
        walk.panic.outcome(result)
    }

    /// Checks every invariant; [`Error::Internal`](crate::Error::Internal) names the first that does not hold.
    pub fn validate(&self) -> Result<()> {
        // SAFETY: the arena is live, and on this thread only.
        check(unsafe { sys::weir_arena_validate(self.raw) })
    }

    /// The handle of C. It stays this arena's.
    pub fn as_raw(&self) -> sys::weir_arena {
        self.raw
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the arena is live, and no other code has it.
        unsafe { sys::weir_arena_destroy(self.raw) };
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Arena").field(&self.raw).finish()
    }
}
