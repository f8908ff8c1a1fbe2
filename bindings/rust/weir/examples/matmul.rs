// SPDX-License-Identifier: Apache-2.0

//! C = A x B of float32, on a device that holds a quarter of the three matrices.
//!
//! Each matrix is cut into tiles, and each tile is a buffer. For a tile of C, the tiles of A and B that make it are leased
//! one pair after the other, and the product is a function in the stream; a lease is released as soon as that is enqueued.
//! The tiles of the next step are prefetched before. Every second row of C runs backwards, so that it begins with what is
//! still on the device. The elements are small integers, so that every sum is exact and all of C can be compared.
//!
//!     cargo run --release --example matmul -- [--size N] [--tile T]

use weir::{AcquireOptions, Buffer, Context, ContextOptions, Element, Error, Pool, PoolOptions, Stream, Use};

const PAGE: u64 = 64 << 10;

fn a(i: usize, k: usize) -> f32 {
    ((7 * i + 3 * k) % 11) as f32 - 5.0
}

fn b(k: usize, j: usize) -> f32 {
    ((5 * k + 2 * j) % 13) as f32 - 6.0
}

/// A square matrix in tiles, row by row.
struct Matrix {
    tiles: Vec<Buffer>,
    across: usize,
    tile: usize,
}

impl Matrix {
    fn new(pool: &Pool, size: usize, tile: usize) -> weir::Result<Matrix> {
        let across = size / tile;
        let options = weir::BufferOptions::new((tile * tile * 4) as u64).element(Element::F32);
        let tiles = (0..across * across).map(|_| options.create(pool)).collect::<Result<_, _>>()?;
        Ok(Matrix { tiles, across, tile })
    }

    fn tile(&self, row: usize, column: usize) -> &Buffer {
        &self.tiles[row * self.across + column]
    }

    fn fill(&self, element: fn(usize, usize) -> f32) -> weir::Result<()> {
        let tile = self.tile;
        for (number, buffer) in self.tiles.iter().enumerate() {
            let (row, column) = (number / self.across * tile, number % self.across * tile);
            let values: Vec<f32> =
                (0..tile * tile).map(|at| element(row + at / tile, column + at % tile)).collect();
            buffer.write(0, &values)?;
        }
        Ok(())
    }
}

/// The kernel: c = a x b, or c += a x b.
fn multiply(n: usize, a: &[f32], b: &[f32], c: &mut [f32], first: bool) {
    if first {
        c.fill(0.0);
    }
    for (a, c) in a.chunks_exact(n).zip(c.chunks_exact_mut(n)) {
        for (&a, b) in a.iter().zip(b.chunks_exact(n)) {
            for (c, &b) in c.iter_mut().zip(b) {
                *c += a * b;
            }
        }
    }
}

/// A step: tile (i, j) of C gets the product of tiles (i, k) of A and (k, j) of B.
#[derive(Clone, Copy)]
struct Step {
    i: usize,
    j: usize,
    k: usize,
}

/// The steps in their order: every second row backwards.
fn steps(across: usize) -> impl Iterator<Item = Step> {
    (0..across * across * across).map(move |number| {
        let (i, place, k) = (number / across / across, number / across % across, number % across);
        let j = if i % 2 == 0 { place } else { across - 1 - place };
        Step { i, j, k }
    })
}

/// What a step uses.
fn uses([a, b, c]: [&Matrix; 3], step: Step) -> [Use<'_>; 3] {
    let result = c.tile(step.i, step.j);
    [
        Use::read(a.tile(step.i, step.k)),
        Use::read(b.tile(step.k, step.j)),
        if step.k == 0 { Use::discard_write(result) } else { Use::read_write(result) },
    ]
}

fn run(pool: &Pool, stream: &Stream, matrices: [&Matrix; 3]) -> weir::Result<()> {
    let n = matrices[0].tile;
    // Nothing else holds a lease here, so it may wait without a deadline.
    let wait = AcquireOptions::new().as_sole_holder();
    let mut coming = steps(matrices[0].across).peekable();
    while let Some(step) = coming.next() {
        if let Some(&next) = coming.peek() {
            pool.prefetch(stream, &uses(matrices, next))?;
        }
        let mut lease = pool.acquire_with(stream, uses(matrices, step), &wait)?;
        lease.host_call(move |views| {
            let [a, b, c] = views else { panic!("a step has three uses") };
            let (a, b) = (a.slice().expect("a tile of A"), b.slice().expect("a tile of B"));
            multiply(n, a, b, c.slice_mut().expect("a tile of C"), step.k == 0);
        })?;
        lease.release()?;
    }
    stream.synchronize()
}

/// How many elements of C are not the sum they should be.
fn wrong_elements(c: &Matrix) -> weir::Result<usize> {
    let (size, tile) = (c.across * c.tile, c.tile);
    let mut values = vec![0f32; size * size];
    let mut part = vec![0f32; tile * tile];
    for (number, buffer) in c.tiles.iter().enumerate() {
        buffer.read(0, &mut part)?;
        let (row, column) = (number / c.across * tile, number % c.across * tile);
        for (y, line) in part.chunks_exact(tile).enumerate() {
            let start = (row + y) * size + column;
            values[start..start + tile].copy_from_slice(line);
        }
    }
    let b: Vec<i32> = (0..size * size).map(|at| b(at / size, at % size) as i32).collect();
    let mut wrong = 0;
    for (i, line) in values.chunks_exact(size).enumerate() {
        let mut sums = vec![0i32; size];
        for (k, b) in b.chunks_exact(size).enumerate() {
            let a = a(i, k) as i32;
            sums.iter_mut().zip(b).for_each(|(sum, &b)| *sum += a * b);
        }
        wrong += line.iter().zip(&sums).filter(|&(&value, &sum)| value != sum as f32).count();
    }
    Ok(wrong)
}

fn multiply_out_of_core(size: usize, tile: usize) -> weir::Result<usize> {
    let bytes = (3 * size * size * 4) as u64;
    let context: Context = ContextOptions::new()
        .options(&format!("host.memory={bytes};host.granule={PAGE};host.granule_large=0"))
        .open()?;
    // "gpu,host" where the kernel is a GPU's: here it is a function of the CPU.
    let device = context.find_device("host")?;
    let pool = PoolOptions::new()
        .device(device, bytes / 4)
        .host_budget(bytes + bytes / 4)
        .name("matmul")
        .create(&context)?;
    let stream = Stream::new(&context, device)?;
    let matrix = || Matrix::new(&pool, size, tile);
    let (first, second, product) = (matrix()?, matrix()?, matrix()?);
    first.fill(a)?;
    second.fill(b)?;
    run(&pool, &stream, [&first, &second, &product])?;
    let wrong = wrong_elements(&product)?;
    println!(
        "matmul N={size} tile={tile}: device holds 25 % of the matrices, moved {} MiB to the device, {wrong} wrong elements",
        pool.stats()?.promoted_bytes >> 20
    );
    Ok(wrong)
}

/// The values of `--size` and `--tile`.
fn arguments() -> Result<(usize, usize), String> {
    let (mut size, mut tile) = (768, 128);
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or(format!("{name} needs a number"))?;
        let number = value.parse().map_err(|_| format!("{name}: '{value}' is no number"))?;
        match name.as_str() {
            "--size" => size = number,
            "--tile" => tile = number,
            _ => return Err(format!("unknown argument '{name}'; use: matmul [--size N] [--tile T]")),
        }
    }
    if tile == 0 || size == 0 || size % tile != 0 || size > 16384 {
        return Err(format!("--size {size} must be a multiple of --tile {tile}, and at most 16384"));
    }
    Ok((size, tile))
}

fn main() -> std::process::ExitCode {
    let outcome = arguments()
        .and_then(|(size, tile)| multiply_out_of_core(size, tile).map_err(|error: Error| error.to_string()));
    match outcome {
        Ok(0) => std::process::ExitCode::SUCCESS,
        Ok(_) => std::process::ExitCode::FAILURE,
        Err(message) => {
            eprintln!("matmul: {message}");
            std::process::ExitCode::FAILURE
        }
    }
}
