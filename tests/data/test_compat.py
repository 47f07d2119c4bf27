"""Private functions of torch that data calls are what they were when results were written."""

import torch

from lightning_bench.data.compat import standard_gamma

#: Of seed 7, as torch 2.15 draws them; mixup's shares, and so results, follow from such numbers.
DRAWN = [[1.2045092e-1, 1.19839106e-5, 1.254169e-2], [2.8994989e-1, 5.663036e-1, 9.1964459e-1]]


def test_gammas_are_those_of_torch_distributions_and_as_ever() -> None:
    alpha = torch.full((2, 3), 0.2)
    drawn = standard_gamma(alpha, torch.Generator().manual_seed(7))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        public = torch.distributions.Gamma(alpha, 1.0).sample()
    assert torch.equal(drawn, public)
    torch.testing.assert_close(drawn, torch.tensor(DRAWN), rtol=1e-5, atol=0)
