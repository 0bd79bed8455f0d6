"""verl's GAE over the sampled tokens alone. Apart from ``estimators``, which imports the module that this changes."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Estimator = Callable[..., tuple[Tensor, Tensor]]


def gae_of_actions(verls: Estimator) -> Estimator:
    """verl's GAE goes from token to token and carries what it knows past those that were not sampled. Here it is given the sampled ones
    alone, of which a multi-turn row has few: their numbers are the same, those of others 0."""

    def estimator(
        token_level_rewards: Tensor, values: Tensor, response_mask: Tensor, gamma: float, lam: float
    ) -> tuple[Tensor, Tensor]:
        mask = response_mask.bool()
        rows, columns = mask.nonzero(as_tuple=True)
        places = mask.cumsum(dim=1)[rows, columns] - 1
        width = max(1, int(mask.sum(dim=1).max()))

        def packed(tokens: Tensor) -> Tensor:
            return tokens.new_zeros(len(tokens), width).index_put((rows, places), tokens[rows, columns])

        def spread(found: Tensor) -> Tensor:
            return found.new_zeros(mask.shape).index_put((rows, columns), found[rows, places])

        advantages, returns = verls(*map(packed, (token_level_rewards, values, response_mask)), gamma, lam)
        return spread(advantages), spread(returns)

    return estimator
