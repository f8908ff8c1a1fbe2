// SPDX-License-Identifier: Apache-2.0

//! The codec alone: lossless, for the memory of devices. It needs no context, pool or device.

use crate::context::{c_text, pointer};
use crate::error::check;
use crate::{CodecShare, Element, Error, Level, Method, Result};
use weir_sys as sys;
use weir_sys::Init as _;

/// How to compress.
#[derive(Clone, Debug)]
pub struct CompressOptions {
    level: Level,
    element: Element,
    codec: Option<String>,
    flags: u64,
}

impl Default for CompressOptions {
    fn default() -> CompressOptions {
        CompressOptions { level: Level::Fast, element: Element::Any, codec: None, flags: 0 }
    }
}

impl CompressOptions {
    /// Fast, by whatever method pays, with checksums.
    pub fn new() -> CompressOptions {
        CompressOptions::default()
    }

    /// How much time it is worth.
    pub fn level(mut self, level: Level) -> CompressOptions {
        self.level = level;
        self
    }

    /// What the bytes are; a wrong one costs nothing but ratio.
    pub fn element(mut self, element: Element) -> CompressOptions {
        self.element = element;
        self
    }

    /// "auto", or the one method to use where it pays.
    pub fn codec(mut self, name: &str) -> CompressOptions {
        self.codec = Some(name.to_owned());
        self
    }

    /// No checksums: for callers that have one of their own.
    pub fn no_checksum(mut self) -> CompressOptions {
        self.flags |= u64::from(sys::WEIR_COMPRESS_NO_CHECKSUM);
        self
    }
}

/// The most bytes a blob of so many raw bytes can have; `None` if there can be none.
pub fn compress_bound(bytes: u64) -> Option<u64> {
    // SAFETY: it is a computation.
    let bound = unsafe { sys::weir_compress_bound(bytes) };
    (bound != 0).then_some(bound)
}

/// Compresses bytes into a blob.
///
/// ```
/// let zeros = vec![0u8; 1 << 20];
/// let blob = weir::compress(&zeros, &weir::CompressOptions::new())?;
/// assert!(blob.len() < 1000);
/// assert_eq!(weir::decompress(&blob)?, zeros);
/// # Ok::<(), weir::Error>(())
/// ```
pub fn compress(raw: &[u8], options: &CompressOptions) -> Result<Vec<u8>> {
    let bound = compress_bound(raw.len() as u64).and_then(|bound| usize::try_from(bound).ok());
    let bound =
        bound.ok_or_else(|| Error::invalid(format!("{} bytes are too many for a blob", raw.len())))?;
    let mut blob = vec![0; bound];
    let length = compress_into(raw, options, &mut blob)?;
    blob.truncate(length);
    Ok(blob)
}

/// As [`compress`], into memory of the caller's with room for [`compress_bound`] bytes; the blob's length.
pub fn compress_into(raw: &[u8], options: &CompressOptions, blob: &mut [u8]) -> Result<usize> {
    let codec = options.codec.as_deref().map(|codec| c_text("codec", codec)).transpose()?;
    let mut desc = sys::weir_compress_desc::INIT;
    desc.level = options.level.as_raw();
    desc.element = options.element.as_raw();
    desc.codec = pointer(&codec);
    desc.flags = options.flags;
    let mut length = 0;
    // SAFETY: both slices have as many bytes as told, and do not overlap.
    check(unsafe {
        let (from, to) = (raw.as_ptr().cast(), blob.as_mut_ptr().cast());
        sys::weir_compress(&desc, from, raw.len() as u64, to, blob.len() as u64, &mut length)
    })?;
    Ok(length as usize)
}

/// The bytes of a blob. One that says it holds more than there is memory for is refused.
pub fn decompress(blob: &[u8]) -> Result<Vec<u8>> {
    let bytes = compressed_info(blob)?.raw_bytes;
    let length = usize::try_from(bytes).map_err(|_| Error::invalid(format!("{bytes} bytes do not fit")))?;
    let mut raw = Vec::new();
    raw.try_reserve_exact(length)
        .map_err(|_| Error::invalid(format!("there is no memory for {bytes} bytes")))?;
    raw.resize(length, 0);
    let length = decompress_into(blob, &mut raw)?;
    raw.truncate(length);
    Ok(raw)
}

/// As [`decompress`], into memory of the caller's; the number of bytes. If it fails, what is there is undefined.
pub fn decompress_into(blob: &[u8], raw: &mut [u8]) -> Result<usize> {
    let mut length = 0;
    // SAFETY: both slices have as many bytes as told, and do not overlap.
    check(unsafe {
        let (from, to) = (blob.as_ptr().cast(), raw.as_mut_ptr().cast());
        sys::weir_decompress(from, blob.len() as u64, to, raw.len() as u64, &mut length)
    })?;
    Ok(length as usize)
}

/// What a blob's header and table tell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressedInfo {
    /// Of the format.
    pub version: u32,
    /// Bytes that were compressed.
    pub raw_bytes: u64,
    /// Raw bytes of every block but the last.
    pub block_bytes: u64,
    /// How many blocks there are.
    pub blocks: u64,
    /// Whether it has checksums.
    pub checksums: bool,
    methods: Vec<CodecShare>,
}

impl CompressedInfo {
    /// The blocks that a method coded.
    pub fn method(&self, method: Method) -> CodecShare {
        self.methods.get(method.as_raw() as usize).copied().unwrap_or_default()
    }
}

/// What a blob's header and table tell; the blocks are not looked at.
pub fn compressed_info(blob: &[u8]) -> Result<CompressedInfo> {
    let mut info = sys::weir_compressed_info::INIT;
    // SAFETY: the slice has as many bytes as told.
    check(unsafe { sys::weir_compressed_info_get(blob.as_ptr().cast(), blob.len() as u64, &mut info) })?;
    Ok(CompressedInfo {
        version: info.version,
        raw_bytes: info.raw_bytes,
        block_bytes: info.block_bytes,
        blocks: info.blocks,
        checksums: info.checksums != 0,
        methods: info.methods.iter().map(CodecShare::from_raw).collect(),
    })
}
