// SPDX-License-Identifier: Apache-2.0

//! A pool's numbers: its counters, those of its devices, and what its codec did.

use crate::error::check;
use crate::{Device, DeviceState, Element, Method, Pool, Result};
use weir_sys as sys;
use weir_sys::Init as _;

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// The pool's counters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct PoolStats {
            $($(#[$meta])* pub $name: u64,)*
        }

        impl PoolStats {
            fn from_raw(raw: &sys::weir_pool_stats) -> PoolStats {
                PoolStats { $($name: raw.$name,)* }
            }
        }
    };
}

counters! {
    /// Bytes all devices may hold, after any reduction by DEVICE_OOM.
    device_budget,
    /// Bytes of device memory held from the system.
    device_bytes,
    /// Of those, not in use: in free lists, or free in segments.
    device_free_bytes,
    /// Of those, held (weir_hold, weir_malloc).
    device_held_bytes,
    /// Bytes HOST may hold.
    host_budget,
    /// Bytes of pinned memory held from the system.
    host_bytes,
    /// Of those, occupied by pages.
    host_used_bytes,
    /// Live buffers.
    buffers,
    /// Pages of live buffers and slabs, and of dead ones not yet given up.
    pages,
    /// Slabs.
    slabs,
    /// Bytes of live buffers as asked for.
    buffer_bytes,
    /// Host memory the pool's own records take.
    bookkeeping_bytes,
    /// Uses granted with everything resident.
    hits,
    /// Uses that had to bring in at least one page.
    misses,
    /// Bytes copied up to a device.
    promoted_bytes,
    /// Bytes copied down from a device.
    demoted_bytes,
    /// Bytes evicted without a copy, because another latest copy existed.
    dropped_clean_bytes,
    /// Bytes evicted without a copy, because they were discarded or never written.
    discarded_bytes,
    /// Bytes of never-written pages zeroed on a device.
    zero_filled_bytes,
    /// Of promoted_bytes and peer_bytes, those brought in ahead of demand.
    prefetched_bytes,
    /// Of demoted_bytes, those copied down ahead of demand.
    background_demoted_bytes,
    /// Bytes copied between devices.
    peer_bytes,
    /// Pages evicted.
    evictions,
    /// Evictions given up: no room below, a failed copy, a slow fence.
    eviction_failures,
    /// Acquires refused with OVER_BUDGET.
    over_budget,
    /// Acquires refused with WOULD_BLOCK or TIMEOUT.
    would_block,
    /// Acquires refused with LEASE_CONFLICT.
    lease_conflicts,
    /// Times the runtime refused memory inside the budget.
    device_oom,
    /// Promoted bytes that had been evicted within the last device_budget bytes of evictions.
    refaulted_bytes,
    /// Time acquires spent waiting for other leases.
    wait_ns,
    /// Pages found in a lower tier with other bytes than were demoted.
    checksum_failures,
    /// Of host_bytes, those that lower tiers are reached through.
    staging_bytes,
    /// Bytes COMPRESSED may hold.
    compressed_budget,
    /// Bytes of memory compressed pages take.
    compressed_bytes,
    /// Bytes of those pages uncompressed.
    compressed_raw_bytes,
    /// Bytes of the spill files.
    storage_budget,
    /// Of those, occupied by pages.
    storage_bytes,
    /// Bytes of those pages uncompressed.
    storage_raw_bytes,
    /// Bytes written to the spill files.
    storage_written_bytes,
    /// Bytes read back from them.
    storage_read_bytes,
    /// Bytes of pages compressed, before.
    compressed_in_bytes,
    /// ... and after.
    compressed_out_bytes,
    /// Bytes of pages decompressed.
    decompressed_bytes,
    /// Bytes of pages that were not compressed because it would not pay.
    incompressible_bytes,
    /// Bytes of pages moved out of HOST to a lower tier, or past it.
    sunk_bytes,
    /// Bytes of pages brought up from a lower tier than HOST.
    lifted_bytes,
    /// Reads and writes of the spill files that failed.
    io_errors,
    /// Of dropped_clean_bytes, those copied to HOST all the same, to be nearer than below it.
    cached_bytes,
    /// The most device memory ever held from the system, each device's added up.
    device_peak_bytes,
    /// Segments held on devices without VMM.
    device_segments,
    /// Bytes of idle device memory given back to the system after idle_grace_ns.
    device_returned_bytes,
    /// Tenants moved by defragmentation.
    defragment_moves,
    /// Bytes of those, copied.
    defragment_moved_bytes,
    /// Bytes that left a device because they lay in the way.
    defragment_evicted_bytes,
    /// Bytes of device memory that defragmentation has freed.
    defragment_won_bytes,
    /// Bytes of pages compressed again, harder, while they lay idle in COMPRESSED.
    recompressed_bytes,
    /// Bytes of COMPRESSED that were freed by it.
    recompressed_won_bytes,
    /// Of demoted_bytes, those copied to a neighbour's idle memory.
    lent_bytes,
    /// Device memory that such pages take now.
    borrowed_bytes,
    /// Of peer_bytes, those copied through a third device.
    relayed_bytes,
    /// Of peer_bytes, those copied through the host.
    host_relayed_bytes,
    /// Of peer_bytes, those of copies that went several ways at once.
    split_bytes,
    /// Bytes copied from HOST and below to neighbours that had memory to spare.
    rebalanced_bytes,
    /// Changes of the pool's devices so far: one added, one removed, one lost.
    generation,
    /// Uses granted on another device's memory (WEIR_USE_ALLOW_REMOTE).
    remote_uses,
    /// Times a name got the number that all names beyond the first 65,536 share ([`Pool::operation_id`](crate::Pool::operation_id)).
    shared_operation_ids,
    /// Operations that the policy has learned from.
    learned_operations,
    /// Uses, births and deaths of buffers that it has not learned from: its log was full, or its share of the CPU used up.
    /// A use of a part of a buffer counts twice.
    lost_uses,
    /// Operations that a plan foresaw, and that came while it was carried out.
    planned_operations,
    /// Plans made, each from what was there then.
    plans_made,
    /// Of prefetched_bytes, those that a plan wanted by a date.
    plan_fetched_bytes,
    /// Of background_demoted_bytes, those that stayed on the device: a plan has done with them.
    plan_cleaned_bytes,
    /// Times that the policy stopped carrying out plans, or took it up again, because they did not pay or do.
    policy_switches,
    /// 1: it carries out plans now; 0: it does not.
    policy_carries_plans,
    /// Of plans_made, those that ended because what they foresaw did not come true.
    plans_ended_untrusted,
    /// ... because the program went on elsewhere, or with other sizes.
    plans_ended_moved,
    /// ... because too much had to be fetched that they did not have.
    plans_ended_missed,
    /// ... because they had lasted for 4096 operations.
    plans_ended_old,
    /// ... because the device's budget had changed.
    plans_ended_budget,
    /// ... because a device left, was lost, or came.
    plans_ended_device,
    /// ... because the share of the CPU (policy_cpu_percent) was used up.
    plans_ended_share,
    /// ... because what was announced was used up or taken back, or took their place.
    plans_ended_announced,
    /// ... because there was no memory.
    plans_ended_memory,
}

// A counter that the header has and this page lacks would be missed silently.
const _: () = assert!(std::mem::size_of::<PoolStats>() + 8 == std::mem::size_of::<sys::weir_pool_stats>());

/// Numbers of one device in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolDeviceStats {
    /// Which device.
    pub device: Device,
    /// Bytes it may hold.
    pub budget: u64,
    /// Held from the system.
    pub bytes: u64,
    /// Of those, not in use.
    pub free_bytes: u64,
    /// Of those, held by holds and `malloc`.
    pub held_bytes: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// Bytes of a large page.
    pub large_page_size: u64,
    /// The most ever held from the system, or since [`Pool::reset_peak`].
    pub peak_bytes: u64,
    /// Held, where there is no virtual-memory management.
    pub segments: u64,
    /// Given back to the system after the time of grace.
    pub returned_bytes: u64,
    /// Bytes of memory the device has, whatever the budget; 0 = not known.
    pub memory_total: u64,
    /// How it stands in the pool.
    pub state: DeviceState,
}

/// Bytes of the blocks of one method, or of elements of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodecShare {
    /// Before.
    pub raw_bytes: u64,
    /// After.
    pub coded_bytes: u64,
}

impl CodecShare {
    pub(crate) fn from_raw(raw: &sys::weir_codec_share) -> CodecShare {
        CodecShare { raw_bytes: raw.raw_bytes, coded_bytes: raw.coded_bytes }
    }
}

/// What a pool's codec did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecStats {
    methods: Vec<CodecShare>,
    elements: Vec<CodecShare>,
}

impl CodecStats {
    /// The blocks that a method coded.
    pub fn method(&self, method: Method) -> CodecShare {
        self.methods.get(method.as_raw() as usize).copied().unwrap_or_default()
    }

    /// The pages whose elements were taken for these.
    pub fn element(&self, element: Element) -> CodecShare {
        self.elements.get(element.as_raw() as usize).copied().unwrap_or_default()
    }
}

impl Pool {
    /// The pool's counters now.
    pub fn stats(&self) -> Result<PoolStats> {
        let mut stats = sys::weir_pool_stats::INIT;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_stats_get(self.as_raw(), &mut stats) })?;
        Ok(PoolStats::from_raw(&stats))
    }

    /// What the pool's codec did so far, to tell what pays.
    pub fn codec_stats(&self) -> Result<CodecStats> {
        let mut stats = sys::weir_codec_stats::INIT;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_codec_stats_get(self.as_raw(), &mut stats) })?;
        Ok(CodecStats {
            methods: stats.methods.iter().map(CodecShare::from_raw).collect(),
            elements: stats.elements.iter().map(CodecShare::from_raw).collect(),
        })
    }

    /// Numbers of one device.
    pub fn device_stats(&self, device: Device) -> Result<PoolDeviceStats> {
        let mut stats = sys::weir_pool_device_stats::INIT;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_device_stats_get(self.as_raw(), device.0, &mut stats) })?;
        Ok(PoolDeviceStats {
            device: Device(stats.device),
            budget: stats.budget,
            bytes: stats.bytes,
            free_bytes: stats.free_bytes,
            held_bytes: stats.held_bytes,
            page_size: stats.page_size,
            large_page_size: stats.large_page_size,
            peak_bytes: stats.peak_bytes,
            segments: stats.segments,
            returned_bytes: stats.returned_bytes,
            memory_total: stats.memory_total,
            state: DeviceState::from_raw(stats.state),
        })
    }

    /// Counts a device's `peak_bytes` anew, from what is held now.
    pub fn reset_peak(&self, device: Device) -> Result<()> {
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_reset_peak(self.as_raw(), device.0) })
    }
}
