//! Projections whose weights are shared out: into a layer by outputs, out of it by inputs.

use std::borrow::Cow;

use crate::engine::backend::{Backend, Input};

use super::{Buf, Parallel};

/// Buffers between devices, by width.
pub struct Scratch<B: Backend> {
    /// What the first device sent to each of the others.
    copies: Vec<(usize, Vec<B::Buf>)>,
    /// Each device's summand.
    summands: Vec<(usize, Vec<B::Buf>)>,
    /// Another device's summand on the first one.
    arrived: Vec<(usize, Vec<B::Buf>)>,
}

impl<B: Backend> Default for Scratch<B> {
    fn default() -> Self {
        Self { copies: Vec::new(), summands: Vec::new(), arrived: Vec::new() }
    }
}

/// The buffers of this width, made on `ranks` if they are not there.
fn of_width<'a, B: Backend>(all: &'a mut Vec<(usize, Vec<B::Buf>)>, width: usize, ranks: &[B]) -> &'a mut [B::Buf] {
    let at = all.iter().position(|(w, _)| *w == width).unwrap_or_else(|| {
        all.push((width, ranks.iter().map(|rank| rank.buf(width)).collect()));
        all.len() - 1
    });
    &mut all[at].1
}

/// A projection's input on the first device.
pub fn first<'a, T, V>(input: &Input<'a, Buf<T>, Vec<V>>) -> Input<'a, T, V> {
    match input {
        Input::Plain(x) => Input::Plain(x.first()),
        Input::Normed { x, weight, eps } => Input::Normed { x: x.first(), weight: &weight[0], eps: *eps },
        Input::Gated(x) => Input::Gated(x.first()),
    }
}

/// A projection's input on one device, where `x` is what it has of the rows.
fn of_rank<'a, T, V>(input: &Input<'a, Buf<T>, Vec<V>>, x: &'a T, rank: usize) -> Input<'a, T, V> {
    match input {
        Input::Plain(_) => Input::Plain(x),
        Input::Normed { weight, eps, .. } => Input::Normed { x, weight: &weight[rank], eps: *eps },
        Input::Gated(_) => Input::Gated(x),
    }
}

fn rows_of<'a, T, V>(input: &Input<'a, Buf<T>, Vec<V>>) -> &'a Buf<T> {
    match input {
        Input::Plain(x) | Input::Gated(x) | Input::Normed { x, .. } => x,
    }
}

/// One device's part of a projection.
struct Part<'a, B: Backend> {
    rank: &'a mut B,
    x: &'a B::Buf,
    w: &'a B::Matrix,
    out: &'a mut B::Buf,
}

fn parts<'a, B: Backend>(
    ranks: &'a mut [B],
    sources: impl IntoIterator<Item = &'a B::Buf>,
    w: &'a [B::Matrix],
    out: &'a mut [B::Buf],
) -> Vec<Part<'a, B>> {
    let all = ranks.iter_mut().zip(sources).zip(w).zip(out);
    all.map(|(((rank, x), w), out)| Part { rank, x, w, out }).collect()
}

impl<B> Parallel<B>
where
    B: Backend,
    B::Matrix: Sync,
    B::Vector: Sync,
    B::Buf: Sync,
{
    /// Every device makes its outputs, from a copy of whole rows or from its own columns.
    pub(super) fn spread(
        &mut self,
        input: &Input<'_, Buf<B::Buf>, Vec<B::Vector>>,
        rows: usize,
        w: &[B::Matrix],
        out: &mut [B::Buf],
        add: bool,
    ) {
        let (here, others) = self.ranks.split_at_mut(1);
        let sources: Vec<&B::Buf> = match rows_of(input) {
            Buf::Shared(parts) => parts.iter().collect(),
            Buf::Whole { rows: x, width } => {
                let copies = of_width(&mut self.scratch.copies, *width, others);
                let data = here[0].read(x, 0..rows);
                for (rank, copy) in others.iter_mut().zip(copies.iter_mut()) {
                    rank.upload(&data, copy);
                }
                std::iter::once(x).chain(copies.iter()).collect()
            }
        };
        let parts = parts(&mut self.ranks, sources, w, out);
        self.team.each(parts, |at, part| part.rank.linear(&of_rank(input, part.x, at), rows, part.w, part.out, add));
    }

    /// Every device makes its summand from its own columns; the first one adds them in order.
    pub(super) fn sum(
        &mut self,
        input: &Input<'_, Buf<B::Buf>, Vec<B::Vector>>,
        rows: usize,
        w: &[B::Matrix],
        (out, width): (&mut B::Buf, usize),
        add: bool,
    ) {
        let Buf::Shared(sources) = rows_of(input) else {
            unreachable!("projections by inputs read shared buffers");
        };
        let summands = of_width(&mut self.scratch.summands, width, &self.ranks);
        let parts = parts(&mut self.ranks, sources, w, &mut *summands);
        self.team.each(parts, |at, part| part.rank.linear(&of_rank(input, part.x, at), rows, part.w, part.out, false));
        let (here, others) = self.ranks.split_at_mut(1);
        let first = &mut here[0];
        if add {
            first.add(&summands[0], rows, out);
        } else {
            let all: Vec<usize> = (0..rows).collect();
            first.gather(&summands[0], &all, out, 0);
        }
        let arrived = &mut of_width(&mut self.scratch.arrived, width, std::slice::from_ref(&*first))[0];
        for (rank, summand) in others.iter().zip(&summands[1..]) {
            let data: Cow<'_, [f32]> = rank.read(summand, 0..rows);
            first.upload(&data, arrived);
            first.add(arrived, rows, out);
        }
    }
}
