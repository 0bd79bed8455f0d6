from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.estimators.gae import Lambdas
from turngrid.algorithms.pools import whiten
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns, discounted


@dataclass(kw_only=True)
class Vapo(Lambdas):
    """GAE from token to token, with a lambda for the policy and one for the critic (VAPO).

    ``delta_i = r_i + gamma v_{i+1} - v_i`` and ``A_i = delta_i + gamma lam A_{i+1}`` over the
    action tokens of an episode, those of all its rows. Returns are ``A + v``; values and A after
    the last token are 0. Advantages are whitened over action tokens. With null lambdas this is
    verl's GAE. An episode's length is its action tokens.
    """

    needs = frozenset({"values"})
    grain = "token"

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert tokens.value is not None
        values = tokens.value.double().where(turns.place >= 0, 0.0)
        lambdas = (self.of_policy(turns.tokens.sum(dim=1)), self.of_critic)
        advantages, learned = (self._gae(turns, tokens.reward, values, lam) for lam in lambdas)
        return Estimate(whiten(advantages, tokens.mask).float(), (values + learned).float())

    def _gae(self, turns: Turns, reward: Tensor, values: Tensor, lam: float | Tensor) -> Tensor:
        """Return A of every action token before whitening, 0 elsewhere; (B, T) float64."""
        place = turns.place.flatten()
        acting = (place >= 0).nonzero().flatten()
        acting = acting[place[acting].argsort(stable=True)]  # by episode, turn and token
        episode = place[acting] // max(1, turns.mask.shape[1])
        count = torch.bincount(episode, minlength=len(turns.mask))
        token = torch.arange(len(acting)) - (count.cumsum(0) - count)[episode]
        ours = values.new_zeros((2, len(count), max([0, *count.tolist()]) + 1))
        ours[:, episode, token] = torch.stack([reward.double().flatten()[acting], values.flatten()[acting]])
        deltas = ours[0, :, :-1] + self.gamma * ours[1, :, 1:] - ours[1, :, :-1]
        result = torch.zeros_like(values).flatten()
        result[acting] = discounted(deltas, self.gamma * lam)[episode, token]
        return result.reshape(values.shape)
