"""Models drawn by chance. The order of the calls of `chance` is what makes a seed mean the same models for ever."""

import math


def log_uniform(chance, least, most):
    return math.exp(chance.uniform(math.log(least), math.log(most)))


def draw_model(chance):
    """alpha and beta in ms, SLO in ms, weight: l(1) 2 to 60 ms, beta .5 to 20 times alpha, SLO 1.3 to 6 times l(1), weight .2 to 5."""
    one_ms = log_uniform(chance, 2, 60)
    alpha_ms = one_ms / (1 + log_uniform(chance, 0.5, 20))
    slo_ms = one_ms * chance.uniform(1.3, 6)
    return alpha_ms, one_ms - alpha_ms, slo_ms, log_uniform(chance, 0.2, 5)
