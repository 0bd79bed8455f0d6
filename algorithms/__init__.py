"""Methods: tensors in, tensors out.

An estimator that verl calls takes ``token_level_rewards`` and ``response_mask``, (rows, tokens),
and returns ``(advantages, returns)`` of the same shape. A row is one episode. Its mask is 1 on
sampled tokens, 0 on observation tokens and padding, so a multi-turn row's mask has holes. A *dead*
row has an all-zero mask: a dummy row of verl, or no action. It never changes another row.
"""
