r"""When a second opinion on a label is worth more than the label of a new item. Both cost one answer.

Of m labels of which a share nu is wrong, each wrong one equally likely any of the K - 1 other classes, a label tells s =
1 - nu K / (K - 1) as much as a right one, and m of them estimate as well as m s^2 right ones. Righting one lowers nu by 1
/ m, so with nu small it is worth

    d(m s^2) = 2 s K / (K - 1), about 2 K / (K - 1) new labels: four of two classes, two of many.

A new label is worth one, whatever the forecast of the learning curve says: its slope stands on both sides. So a second
opinion pays where the label is wrong with a probability of more than (K - 1) / 2K. By Bayes' rule with the probability p
that the other labels give it (`askless.run.steps.doubt`) and a share `ERROR` of wrong labels,

    P(wrong) = a (1 - p) / (a (1 - p) + (1 - ERROR) p),    a = ERROR / (K - 1).
"""

ERROR = 0.05  # of labels that are wrong, before anything is known


def worth(score: float, classes: int) -> float:
    """In new labels; `score` is 1 - p as `doubt.suspects` gives it.

    >>> [round(worth(score, 2), 2) for score in (0.6, 0.9, 0.99)]
    [0.29, 1.29, 3.36]
    >>> [round(worth(score, 10), 2) for score in (0.9, 0.99, 0.999)]
    [0.11, 0.81, 1.9]
    """
    a = ERROR / (classes - 1)
    wrong = a * score / (a * score + (1 - ERROR) * (1 - score)) if score < 1 else 1.0
    return 2 * classes / (classes - 1) * wrong
