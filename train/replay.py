"""Replays recorded greedy answers: which drafts would have been accepted, for chains and for DDTree.

Greedy decoding with a drafter gives the target's own tokens whatever is drafted, so the rounds follow from the recorded
answer and the drafts at each position: nothing needs to be generated again.
"""

import heapq

import torch

import drafter as D


@torch.no_grad()
def candidates(shape, weights, head, ids, embedding, tokens, features, first: int, k: int, block: int, chunk: int = 64):
    """The `k` most probable tokens of every slot of the block at each position from `first` to the last but one.

    Returns token ids and log-probabilities `[positions, block - 1, k]`.
    """
    cos, sin = D.tables(shape, len(tokens) + block, features.dtype)
    found, scores = [], []
    for start in range(first, len(tokens) - 1, chunk):
        anchors = torch.arange(start, min(start + chunk, len(tokens) - 1))[None]
        context = features[None, : int(anchors.max())]
        hidden = D.forward(shape, weights, context, anchors, tokens[anchors], embedding, cos, sin, block)
        logits = torch.nn.functional.linear(hidden[0].float(), head).log_softmax(-1)
        best = logits.topk(k, -1)
        found.append(best.indices if ids is None else ids[best.indices])
        scores.append(best.values)
    return torch.cat(found), torch.cat(scores)


def best_first(ids, scores, budget: int):
    """The `budget` heaviest prefixes: `children[node]` maps a token to a node; node 0 is the seed."""
    slots, ranks_n = len(ids), len(ids[0])
    children = [{}]
    heap = [(-scores[0][0], (0,), 0)]
    while heap and len(children) <= budget:
        weight, ranks, parent = heapq.heappop(heap)
        depth, rank = len(ranks), ranks[-1]
        node = len(children)
        children.append({})
        children[parent][ids[depth - 1][rank]] = node
        if rank + 1 < ranks_n:
            sibling = weight + scores[depth - 1][rank] - scores[depth - 1][rank + 1]
            heapq.heappush(heap, (sibling, (*ranks[:-1], rank + 1), parent))
        if depth < slots:
            heapq.heappush(heap, (weight - scores[depth][0], (*ranks, 0), node))
    return children


def accepted_chain(ids, scores, follow: list[int]) -> int:
    """Leading first choices that `follow`, the true tokens after the seed, agrees with."""
    count = 0
    while count < min(len(ids), len(follow)) and ids[count][0] == follow[count]:
        count += 1
    return count


def accepted_tree(budget: int):
    """Like `accepted_chain`, for a tree of `budget` nodes."""

    def walk(ids, scores, follow: list[int]) -> int:
        children = best_first(ids, scores, budget)
        node = count = 0
        while count < len(follow) and follow[count] in children[node]:
            node = children[node][follow[count]]
            count += 1
        return count

    return walk


def rounds(tokens: list[int], prompt: int, ids, scores, accepted) -> list[int]:
    """Tokens committed by each round of one answer; the last is cut where the answer ends."""
    out, seed, last = [], prompt, len(tokens) - 1
    ids, scores = ids.tolist(), scores.tolist()
    while seed < last:
        at = seed - prompt
        count = accepted(ids[at], scores[at], tokens[seed + 1 :])
        count = min(count + 1, last - seed)
        out.append(count)
        seed += count
    return out
