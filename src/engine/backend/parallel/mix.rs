//! What mixes tokens, by heads: every device rotates, looks and recalls with its own. Shapes that come with shared
//! buffers are those of one device.

use crate::engine::backend::delta::DeltaNet;
use crate::engine::backend::{Backend, Columns, HeadNorms, Heads, Rows};

use super::{Buf, Cache, Parallel};

/// One device's caches of all sessions.
fn of_rank<'a, C>(caches: &'a mut [&mut Cache<C>], rank: usize) -> Vec<&'a mut C> {
    caches.iter_mut().map(|cache| cache.rank_mut(rank)).collect()
}

/// The caches of all sessions, device by device.
fn by_rank<'a, C>(caches: &'a mut [&mut Cache<C>], count: usize) -> Vec<Vec<&'a mut C>> {
    let mut all: Vec<Vec<&mut C>> = (0..count).map(|_| Vec::with_capacity(caches.len())).collect();
    for cache in caches.iter_mut() {
        if let Cache::Shared(parts) = &mut **cache {
            for (own, part) in all.iter_mut().zip(parts) {
                own.push(part);
            }
        }
    }
    all
}

impl<B> Parallel<B>
where
    B: Backend,
    B::Vector: Clone + Sync,
    B::Buf: Sync,
{
    #[allow(clippy::too_many_arguments)]
    pub(super) fn rotate(
        &mut self,
        x: &mut Buf<B::Buf>,
        columns: Columns,
        heads: &Heads,
        norms: &HeadNorms<Vec<B::Vector>>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<B::Cache>],
    ) {
        let of = |rank: usize| HeadNorms {
            q: norms.q.as_ref().map(|all| all[rank].clone()),
            k: norms.k.as_ref().map(|all| all[rank].clone()),
        };
        let Buf::Shared(x) = x else {
            let mut caches = of_rank(caches, 0);
            return self.ranks[0].rotate_store(x.first_mut(), columns, heads, &of(0), rows, layer, &mut caches);
        };
        let count = self.ranks.len();
        let parts = self.ranks.iter_mut().zip(x).zip(by_rank(caches, count)).collect();
        self.team.each(parts, |at, ((rank, x), mut caches): ((&mut B, _), Vec<_>)| {
            rank.rotate_store(x, columns, heads, &of(at), rows, layer, &mut caches);
        });
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn look(
        &mut self,
        x: &Buf<B::Buf>,
        q: usize,
        heads: &Heads,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<B::Cache>],
        out: &mut Buf<B::Buf>,
    ) {
        let (Buf::Shared(x), Buf::Shared(out)) = (x, &mut *out) else {
            let mut caches = of_rank(caches, 0);
            return self.ranks[0].attend(x.first(), q, heads, rows, layer, &mut caches, out.first_mut());
        };
        let count = self.ranks.len();
        let parts = self.ranks.iter_mut().zip(x).zip(out).zip(by_rank(caches, count)).collect();
        self.team.each(parts, |_, (((rank, x), out), mut caches): (((&mut B, _), _), Vec<_>)| {
            rank.attend(x, q, heads, rows, layer, &mut caches, out);
        });
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn recall(
        &mut self,
        x: &Buf<B::Buf>,
        gates: &Buf<B::Buf>,
        net: &DeltaNet<Vec<B::Vector>>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<B::Cache>],
        out: &mut Buf<B::Buf>,
    ) {
        let of = |rank: usize| DeltaNet {
            shape: net.shape.clone(),
            conv: net.conv[rank].clone(),
            decay: net.decay[rank].clone(),
            bias: net.bias[rank].clone(),
            norm: net.norm[rank].clone(),
        };
        let nets: Vec<DeltaNet<B::Vector>> = (0..self.ranks.len()).map(of).collect();
        let (Buf::Shared(x), Buf::Shared(gates), Buf::Shared(out)) = (x, gates, &mut *out) else {
            let mut caches = of_rank(caches, 0);
            let out = out.first_mut();
            return self.ranks[0].delta(x.first(), gates.first(), &nets[0], rows, layer, &mut caches, out);
        };
        let count = self.ranks.len();
        let parts = self.ranks.iter_mut().zip(x).zip(gates).zip(out).zip(by_rank(caches, count)).collect();
        self.team.each(parts, |at, ((((rank, x), gates), out), mut caches): ((((&mut B, _), _), _), Vec<_>)| {
            rank.delta(x, gates, &nets[at], rows, layer, &mut caches, out);
        });
    }
}
