// SPDX-License-Identifier: Apache-2.0

//! The small words of the interface: devices, and the enums that stand for C's. A number that this version has no name
//! for becomes `Unknown`, so that a newer library can say more.

use crate::error::text;
use std::time::Duration;
use weir_sys as sys;

/// A place with memory: an index below [`Context::device_count`](crate::Context::device_count), or one of the constants. Numbers
/// from 0xffffff00 on are no device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device(pub u32);

impl Device {
    /// The CPU's own memory.
    pub const HOST: Device = Device(sys::WEIR_DEVICE_HOST);
    /// The first device of the pool, or of the context.
    pub const DEFAULT: Device = Device(sys::WEIR_DEVICE_DEFAULT);
    /// As a buffer's home: Weir chooses one. Nowhere else.
    pub const ANY: Device = Device(sys::WEIR_DEVICE_ANY);
    /// Every device of the pool, where a call says so.
    pub const ALL: Device = Device(sys::WEIR_DEVICE_ALL);
}

/// As a budget: no limit of Weir's own.
pub const UNLIMITED: u64 = sys::WEIR_UNLIMITED;
/// As a budget or quota, where 0 means that Weir chooses or that there is none: nothing at all.
pub const NONE: u64 = sys::WEIR_NONE;

macro_rules! words {
    ($(#[$meta:meta])* $name:ident: $raw:ident { $($(#[$item:meta])* $variant:ident = $value:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$item])* $variant,)*
            /// A number that this version of the crate has no name for.
            Unknown($raw),
        }

        impl $name {
            /// The word for a number of C.
            pub fn from_raw(raw: $raw) -> Self {
                match raw {
                    $(sys::$value => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            /// The number in C.
            pub fn as_raw(self) -> $raw {
                match self {
                    $(Self::$variant => sys::$value,)*
                    Self::Unknown(raw) => raw,
                }
            }
        }
    };
}

words! {
    /// Rungs of the ladder. The numbers are no order: a later version may put one in between.
    Tier: u32 {
        /// None of them.
        None = WEIR_TIER_NONE,
        /// A device's own memory.
        Device = WEIR_TIER_DEVICE,
        /// A neighbour's idle memory.
        Peer = WEIR_TIER_PEER,
        /// Pinned host memory.
        Host = WEIR_TIER_HOST,
        /// Pageable host memory, compressed.
        Compressed = WEIR_TIER_COMPRESSED,
        /// Spill files.
        Storage = WEIR_TIER_STORAGE,
    }
}

words! {
    /// What bytes are, if known: it lets them be compressed better, and never changes them.
    Element: u32 {
        /// Found out by looking.
        Any = WEIR_ELEMENT_ANY,
        /// 16-bit floats.
        F16 = WEIR_ELEMENT_F16,
        /// The upper halves of 32-bit floats.
        Bf16 = WEIR_ELEMENT_BF16,
        /// 32-bit floats.
        F32 = WEIR_ELEMENT_F32,
        /// 64-bit floats.
        F64 = WEIR_ELEMENT_F64,
    }
}

words! {
    /// Eviction order between buffers: lower classes go first.
    Priority: i32 {
        /// Goes first.
        Lowest = WEIR_PRIORITY_LOWEST,
        /// Goes before normal ones.
        Low = WEIR_PRIORITY_LOW,
        /// What a buffer is unless asked otherwise.
        Normal = WEIR_PRIORITY_NORMAL,
        /// Goes after normal ones.
        High = WEIR_PRIORITY_HIGH,
        /// Goes last.
        Highest = WEIR_PRIORITY_HIGHEST,
    }
}

words! {
    /// How much a line of the log matters.
    LogLevel: u32 {
        /// Something failed.
        Error = WEIR_LOG_ERROR,
        /// Something is not as it should be.
        Warning = WEIR_LOG_WARNING,
        /// What happened.
        Info = WEIR_LOG_INFO,
        /// For developers of Weir.
        Debug = WEIR_LOG_DEBUG,
    }
}

words! {
    /// What joins two places.
    LinkKind: u32 {
        /// Nothing, or nothing is known.
        None = WEIR_LINK_NONE,
        /// They are the same.
        Same = WEIR_LINK_SAME,
        /// PCI Express.
        Pcie = WEIR_LINK_PCIE,
        /// NVLink.
        Nvlink = WEIR_LINK_NVLINK,
        /// Infinity Fabric.
        InfinityFabric = WEIR_LINK_INFINITY_FABRIC,
        /// Xe Link.
        Xe = WEIR_LINK_XE,
        /// Memory.
        Memory = WEIR_LINK_MEMORY,
        /// Between the chips of one package, as a GPU and its CPU.
        C2c = WEIR_LINK_C2C,
        /// To another machine.
        Network = WEIR_LINK_NETWORK,
    }
}

words! {
    /// Where a link's bandwidth is from. The numbers are no order.
    LinkFigure: u32 {
        /// It is unknown.
        None = WEIR_LINK_FIGURE_NONE,
        /// Derived: the least PCIe generation times lanes on the way.
        Pcie = WEIR_LINK_FIGURE_PCIE,
        /// The machine's topology, or a file of it, gives it.
        Topology = WEIR_LINK_FIGURE_TOPOLOGY,
        /// The backend reports it.
        Backend = WEIR_LINK_FIGURE_BACKEND,
        /// It was measured here.
        Measured = WEIR_LINK_FIGURE_MEASURED,
    }
}

words! {
    /// What [`Context::topology`](crate::Context::topology) writes.
    TopologyFormat: u32 {
        /// Places, devices and links.
        Json = WEIR_TOPOLOGY_JSON,
        /// A tree and a matrix, for people.
        Text = WEIR_TOPOLOGY_TEXT,
        /// A picture.
        Svg = WEIR_TOPOLOGY_SVG,
    }
}

words! {
    /// What is to be expected of a range, for [`Buffer::advise`](crate::Buffer::advise).
    Advice: u32 {
        /// Nothing special.
        Normal = WEIR_ADVISE_NORMAL,
        /// Not needed soon: first choice for eviction until its next use.
        Cold = WEIR_ADVISE_COLD,
        /// Same as a prefetch of the range to the home device.
        WillNeed = WEIR_ADVISE_WILL_NEED,
        /// Used once and not again for long: evicted first after each use.
        Streaming = WEIR_ADVISE_STREAMING,
    }
}

words! {
    /// How hard a trim tries.
    Trim: u32 {
        /// Idle granules and clean pages.
        Gradual = WEIR_TRIM_GRADUAL,
        /// ... and dirty pages, in the policy's order.
        Selective = WEIR_TRIM_SELECTIVE,
        /// ... everything that is neither leased nor held, and spare host memory too.
        Emergency = WEIR_TRIM_EMERGENCY,
    }
}

words! {
    /// How a device stands in a pool.
    DeviceState: u32 {
        /// It is of the pool.
        Present = WEIR_POOL_DEVICE_PRESENT,
        /// It is being removed.
        Leaving = WEIR_POOL_DEVICE_LEAVING,
        /// It no longer answers.
        Lost = WEIR_POOL_DEVICE_LOST,
    }
}

words! {
    /// What a [`Piece`](crate::Piece) tells of the bytes in it.
    PieceState: u32 {
        /// Memory held from the system, used or not: granule, segment, chunk or spill files.
        Reserved = WEIR_PIECE_RESERVED,
        /// The latest version, which lies nowhere else.
        Only = WEIR_PIECE_ONLY,
        /// The latest version, which lies elsewhere too.
        Copy = WEIR_PIECE_COPY,
        /// An older version, or one that is being written.
        Stale = WEIR_PIECE_STALE,
        /// Nothing written yet, or discarded: reads as zero.
        Unwritten = WEIR_PIECE_UNWRITTEN,
        /// On its way in or out.
        Moving = WEIR_PIECE_MOVING,
        /// Of a destroyed buffer.
        Kept = WEIR_PIECE_KEPT,
    }
}

words! {
    /// How a buffer is dealt out to several devices.
    ShardPolicy: u32 {
        /// Stripes in turn, so many for each device as its weight says.
        Striped = WEIR_SHARD_STRIPED,
        /// One run of bytes for each device, in their order, as long as its weight says.
        Blocked = WEIR_SHARD_BLOCKED,
    }
}

words! {
    /// The method a block of a blob is coded by.
    Method: u32 {
        /// One pattern of 8 bytes.
        Same = WEIR_CODEC_SAME,
        /// As it is.
        Raw = WEIR_CODEC_RAW,
        /// LZ4.
        Lz4 = WEIR_CODEC_LZ4,
        /// zstd.
        Zstd = WEIR_CODEC_ZSTD,
        /// Floats: exponents as places in a window.
        Fx = WEIR_CODEC_FX,
        /// A bitmap of zeros, and the rest.
        Sparse = WEIR_CODEC_SPARSE,
        /// Two values of bytes, a bit each.
        Mask = WEIR_CODEC_MASK,
        /// Byte planes, each entropy coded.
        Planes = WEIR_CODEC_PLANES,
        /// Floats of four bytes that fit into two.
        Narrow = WEIR_CODEC_NARROW,
    }
}

words! {
    /// How much time a blob is worth.
    Level: u32 {
        /// Near the speed of memory: what a pool does when a page leaves HOST.
        Fast = WEIR_COMPRESS_LEVEL_FAST,
        /// Entropy coded too: several times slower, for what stays where it goes.
        Dense = WEIR_COMPRESS_LEVEL_DENSE,
    }
}

words! {
    /// What a use does with its bytes.
    Mode: u32 {
        /// Many readers at a time.
        Read = WEIR_READ,
        /// Alone.
        ReadWrite = WEIR_READ_WRITE,
        /// Alone; the old contents are not needed: they are undefined until written.
        DiscardWrite = WEIR_DISCARD_WRITE,
    }
}

impl std::fmt::Display for LinkKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: it returns a constant text for every number.
        f.write_str(&unsafe { text(sys::weir_link_kind_string(self.as_raw())) })
    }
}

impl std::fmt::Display for LinkFigure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: it returns a constant text for every number.
        f.write_str(&unsafe { text(sys::weir_link_figure_string(self.as_raw())) })
    }
}

impl Mode {
    /// Whether the use may change the bytes.
    pub fn writes(self) -> bool {
        matches!(self, Mode::ReadWrite | Mode::DiscardWrite)
    }
}

/// What a device can do; the meaning of each is in docs/backend-abi.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Address ranges and physical granules can be mapped freely.
    pub const VMM: Capabilities = Capabilities(sys::WEIR_CAP_VMM);
    /// One granule may be live at several addresses.
    pub const MULTI_MAP: Capabilities = Capabilities(sys::WEIR_CAP_MULTI_MAP);
    /// Mapping may wait for running work.
    pub const MAP_MAY_BLOCK_DEVICE: Capabilities = Capabilities(sys::WEIR_CAP_MAP_MAY_BLOCK_DEVICE);
    /// Any thread may record on a wrapped stream.
    pub const STREAM_ANY_THREAD: Capabilities = Capabilities(sys::WEIR_CAP_STREAM_ANY_THREAD);
    /// Copies to other devices of the backend need no host staging.
    pub const PEER: Capabilities = Capabilities(sys::WEIR_CAP_PEER);
    /// Granules can be exported as file descriptors.
    pub const EXPORT_FD: Capabilities = Capabilities(sys::WEIR_CAP_EXPORT_FD);
    /// Many copies in one call cost less than one by one.
    pub const BATCH_COPY: Capabilities = Capabilities(sys::WEIR_CAP_BATCH_COPY);
    /// The backend launches kernels.
    pub const KERNELS: Capabilities = Capabilities(sys::WEIR_CAP_KERNELS);
    /// Streams can run a host function in order.
    pub const HOST_CALL: Capabilities = Capabilities(sys::WEIR_CAP_HOST_CALL);
    /// The CPU may dereference device addresses.
    pub const HOST_ACCESS: Capabilities = Capabilities(sys::WEIR_CAP_HOST_ACCESS);
    /// Mapping may be called on the application's threads, and gains nothing from another.
    pub const MAP_ANY_THREAD: Capabilities = Capabilities(sys::WEIR_CAP_MAP_ANY_THREAD);
    /// The caller's own host memory can be registered for copies.
    pub const HOST_REGISTER: Capabilities = Capabilities(sys::WEIR_CAP_HOST_REGISTER);
    /// Granules can be exported to other machines of a fabric.
    pub const EXPORT_FABRIC: Capabilities = Capabilities(sys::WEIR_CAP_EXPORT_FABRIC);
    /// A part of a granule may be mapped, at an offset.
    pub const MAP_PART: Capabilities = Capabilities(sys::WEIR_CAP_MAP_PART);
    /// The device's memory is the host's own: pages do not leave it for HOST.
    pub const INTEGRATED: Capabilities = Capabilities(sys::WEIR_CAP_INTEGRATED);
    /// Granules of other devices of the backend may be mapped in ranges that the device reserved.
    pub const SHARED_RANGE: Capabilities = Capabilities(sys::WEIR_CAP_SHARED_RANGE);
    /// Granules side by side are mapped and unmapped in one call.
    pub const MAP_RUN: Capabilities = Capabilities(sys::WEIR_CAP_MAP_RUN);
    /// Other devices can be given access to memory that is mapped already.
    pub const ACCESS_LATER: Capabilities = Capabilities(sys::WEIR_CAP_ACCESS_LATER);
    /// Streams for copies alone can be made, for copy engines to run.
    pub const TRANSFER_STREAM: Capabilities = Capabilities(sys::WEIR_CAP_TRANSFER_STREAM);
    /// The runtime's own object behind an address can be told.
    pub const NATIVE_MEMORY: Capabilities = Capabilities(sys::WEIR_CAP_NATIVE_MEMORY);

    /// Whether all of `others` are among these.
    pub fn has(self, others: Capabilities) -> bool {
        self.0 & others.0 == others.0
    }
}

/// Nanoseconds as C takes them, short of the numbers that mean something else.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(sys::WEIR_NONE - 1)
}

/// As [`nanoseconds`], where `None` is the time that never comes.
pub(crate) fn deadline(time: Option<Duration>) -> u64 {
    time.map_or(sys::WEIR_INFINITE, nanoseconds)
}
