"""Tests of the recipe: `python -m unittest discover -s train`. Those that need the target look for SPECTOP_TARGET."""

import json
import os
import pathlib
import random
import unittest

import torch

import drafter as D
import fused
from corpus import draw_anchors, labels_of, order_parts
from loss import HeadLoss, pace_weights
from regenerate import loops
from replay import accepted_chain, accepted_tree, best_first, candidates, rounds
from target import Target, load_tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent


def small(causal: bool) -> tuple[D.Shape, dict[str, torch.Tensor]]:
    shape = D.Shape(16, 24, 2, 4, 2, 4, 50, [0, 1], 4, 3, block=4, causal=causal)
    torch.manual_seed(1)
    weights = {k: torch.randn(v, dtype=torch.float64) * (0.3 if len(v) == 2 else 1) for k, v in D.parameters_of(shape).items()}
    return shape, weights


def run(shape, weights, features, anchors, seeds, block=4):
    embedding = torch.randn(50, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    cos, sin = D.tables(shape, 64, torch.float64)
    return D.forward(shape, weights, features, anchors, seeds, embedding, cos, sin, block)


class Leaks(unittest.TestCase):
    """A block must not see position p or later, nor other blocks, nor other sequences."""

    def setUp(self):
        torch.manual_seed(3)
        self.features = torch.randn(2, 12, 32, dtype=torch.float64)
        self.anchors = torch.tensor([[2, 5, 9], [1, 5, 5]])
        self.seeds = torch.tensor([[7, 8, 9], [10, 11, 12]])

    def test_features_from_the_anchor_on_change_nothing(self):
        for causal in (False, True):
            shape, weights = small(causal)
            before = run(shape, weights, self.features, self.anchors, self.seeds)
            changed = self.features.clone()
            changed[0, 5:] = torch.randn(7, 32, dtype=torch.float64)
            after = run(shape, weights, changed, self.anchors, self.seeds)
            self.assertTrue(torch.equal(before[0, :2], after[0, :2]))
            self.assertTrue(torch.equal(before[1], after[1]))
            # Position 5 lies before the third anchor, which must notice.
            self.assertFalse(torch.allclose(before[0, 2], after[0, 2]))

    def test_the_position_before_the_anchor_is_seen(self):
        shape, weights = small(True)
        before = run(shape, weights, self.features, self.anchors, self.seeds)
        changed = self.features.clone()
        changed[0, 4] += 1
        after = run(shape, weights, changed, self.anchors, self.seeds)
        self.assertFalse(torch.allclose(before[0, 1], after[0, 1]))

    def test_no_gradient_reaches_what_must_not_be_seen(self):
        shape, weights = small(False)
        features = self.features.clone().requires_grad_()
        run(shape, weights, features, self.anchors, self.seeds)[0, 1].sum().backward()
        self.assertEqual(float(features.grad[0, 5:].abs().max()), 0)
        self.assertEqual(float(features.grad[1].abs().max()), 0)
        self.assertGreater(float(features.grad[0, 4].abs().max()), 0)

    def test_other_blocks_change_nothing(self):
        shape, weights = small(False)
        together = run(shape, weights, self.features, self.anchors, self.seeds)
        alone = run(shape, weights, self.features[:1], self.anchors[:1, 1:2], self.seeds[:1, 1:2])
        self.assertTrue(torch.allclose(together[:1, 1:2], alone))

    def test_shorter_causal_blocks_are_prefixes(self):
        shape, weights = small(True)
        long = run(shape, weights, self.features, self.anchors, self.seeds, 4)
        short = run(shape, weights, self.features, self.anchors, self.seeds, 3)
        self.assertTrue(torch.allclose(long[:, :, :2], short))


class Gradients(unittest.TestCase):
    def test_hand_written_ones(self):
        torch.manual_seed(0)
        draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        check = torch.autograd.gradcheck
        self.assertTrue(check(lambda x, w: fused.Rms.apply(x, w, 1e-5), (draw(3, 6), draw(6))))
        self.assertTrue(check(fused.Swish.apply, (draw(3, 8),)))
        s, g, a, b, r, d, n = 2, 2, 3, 3, 2, 4, 6
        anchors = torch.tensor([[1, 3, 5], [2, 2, 4]])
        hide = lambda seen, like: torch.zeros(like, dtype=torch.float64).masked_fill(~seen, -1e9)
        bias_ctx = hide(D.context_visible(anchors, n)[:, None, :, None], (s, 1, a, 1, n))
        bias_blk = hide(D.block_visible(b, True)[:, None], (b, 1, b))
        tensors = draw(s, g, a, b, r, d), draw(s, g, n, d), draw(s, g, n, d), draw(s, g, a, b, d), draw(s, g, a, b, d)
        self.assertTrue(check(lambda *t: fused.Attend.apply(*t, bias_ctx, bias_blk), tensors))

    def test_head_loss_is_cross_entropy_with_mixed_labels(self):
        torch.manual_seed(0)
        hidden = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
        head, teacher = torch.randn(7, 5, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64)
        row, label = torch.randint(0, 6, (4, 3)), torch.randint(0, 7, (4, 3))
        label[1, 1] = -1
        loss, _ = HeadLoss.apply(hidden, head, head.T.contiguous(), teacher, row, label, 0.3)
        loss.backward()
        logits = hidden.detach().requires_grad_()
        scores = (logits @ head.T).log_softmax(-1)
        known = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 1]], dtype=torch.bool)
        true = scores.gather(-1, label.clamp(min=0)[..., None])[..., 0]
        w = pace_weights(true.exp().detach(), known)
        soft = ((teacher @ head.T).softmax(-1)[row] * scores).sum(-1)
        (-(w * (0.3 * true + 0.7 * soft)).sum() / w.sum()).backward()
        self.assertTrue(torch.allclose(hidden.grad, logits.grad, atol=1e-6))
        self.assertAlmostEqual(loss.item(), -float((w * true).sum() / w.sum()), 4)


class Labels(unittest.TestCase):
    def test_slot_k_predicts_the_token_k_after_the_anchor(self):
        tokens = torch.arange(20).view(2, 10)
        row, label = labels_of(tokens, [10, 7], torch.tensor([[3, 8], [0, 5]]), 4)
        self.assertEqual(label.tolist(), [[[4, 5, 6], [9, -1, -1]], [[11, 12, 13], [16, -1, -1]]])
        self.assertEqual(row[0, 0].tolist(), [3, 4, 5])
        self.assertEqual(row[1, 0].tolist(), [10, 11, 12])

    def test_anchors_stay_in_the_answer(self):
        drawn = draw_anchors(5, 12, 50, torch.Generator().manual_seed(0))
        self.assertEqual((drawn.min(), drawn.max(), len(drawn)), (5, 10, 50))

    def test_pace(self):
        w = pace_weights(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]]))
        self.assertEqual(w.tolist(), [[1.5, 0.5]])
        w = pace_weights(torch.tensor([[0.0, 0.5]]), torch.tensor([[True, False]]))
        self.assertEqual(w.tolist(), [[1.0, 0.0]])

    def test_loops(self):
        self.assertTrue(loops([9, 1, 2, 3] + [1, 2, 3] * 4, 12))
        self.assertFalse(loops(list(range(12)), 12))
        self.assertFalse(loops([1, 1], 12))


class Parts(unittest.TestCase):
    def test_new_ones_join_and_none_is_left_behind(self):
        rng, uses, files = random.Random(0), {}, [pathlib.Path(n) for n in "ab"]
        for _ in range(6):
            file = order_parts(files, uses, rng)
            uses[str(file)] += 1
        self.assertEqual(uses, {"a": 3, "b": 3})
        files.append(pathlib.Path("c"))
        for _ in range(3):
            uses[str(order_parts(files, uses, rng))] += 1
        self.assertEqual(uses, {"a": 4, "b": 4, "c": 4})


class Replay(unittest.TestCase):
    def test_hand_case_of_a_tree(self):
        p = torch.tensor([[0.6, 0.3], [0.7, 0.2]], dtype=torch.float64).log().tolist()
        children = best_first([[10, 11], [12, 13]], p, 4)
        self.assertEqual(children[0], {10: 1, 11: 3})
        self.assertEqual(children[1], {12: 2})
        self.assertEqual(children[3], {12: 4})
        self.assertEqual(accepted_tree(4)([[10, 11], [12, 13]], p, [11, 12, 7]), 2)

    def test_rounds_of_a_chain(self):
        # Prompt of two; answer 5 6 7 8 9. Drafts after the seed at position 2 are right twice, later ones never.
        ids = torch.tensor([[[6], [7], [0]], [[0], [0], [0]], [[0], [0], [0]], [[0], [0], [0]]])
        scores = torch.zeros(ids.shape)
        self.assertEqual(rounds([1, 2, 5, 6, 7, 8, 9], 2, ids, scores, accepted_chain), [3, 1])
        self.assertEqual(rounds([1, 2, 5, 6, 7], 2, ids, scores, accepted_chain), [2])


class Recorded(unittest.TestCase):
    """The rounds that the methods' own reference code made with the default pair."""

    def test_rounds_agree_with_the_recording(self):
        path = os.environ.get("SPECTOP_TARGET")
        folder = ROOT / "tests/fixtures/smollm2-story"
        if not path:
            self.skipTest("SPECTOP_TARGET is not set")
        expected = json.loads((folder / "expected.json").read_text())
        shape, weights, ids = D.load(os.environ.get("SPECTOP_DRAFTER", ROOT / "models/smollm2-135m-dflash"))
        target = Target(path, shape.taps, torch.float32)
        tokenizer = load_tokenizer(path)
        head = target.head if ids is None else target.head[ids]
        for case in expected["cases"]:
            prompt = tokenizer.ids([{"role": "user", "content": case["prompt"]}])
            self.assertEqual(prompt, case["prompt_ids"])
            tokens = torch.tensor(prompt + case["greedy_ids"])
            at = torch.arange(len(tokens))[None]
            _, features = target.forward(tokens[None], at, target.cache(1, len(tokens)))
            found, scores = candidates(
                shape, weights, head, ids, target.embedding, tokens, features[0], len(prompt), 32, shape.block
            )
            modes = {"chain": (accepted_chain, case["dflash"])}
            modes |= {b: (accepted_tree(int(b)), r) for b, r in case["ddtree"].items()}
            for mode, (accepted, recorded) in modes.items():
                made = rounds(tokens.tolist(), len(prompt), found, scores, accepted)
                wanted = recorded["acceptance_lengths"]
                what = f"{mode} of {case['prompt']!r}"
                # The reference does not cut the round that reaches the limit, and may run one beyond it.
                self.assertEqual(made[:-1], wanted[: len(made) - 1], what)
                self.assertLessEqual(made[-1], wanted[len(made) - 1], what)
                self.assertLessEqual(len(wanted), len(made) + 1, what)


if __name__ == "__main__":
    unittest.main()
