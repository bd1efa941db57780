"""ask, tell, fit: with the user's own module and Dataset, from zero labels, over a save and a load."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

import askless as al

FAST = al.FixMatch(steps=20, batch=8, mu=2, darp=al.DARP())


def blobs(n=90, classes=3, d=6, seed=0):
    """Clouds of points and which cloud each is from; the last 30 are for test."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n + 30)
    x = (rng.normal(size=(n + 30, d)) + 4 * np.eye(classes, d)[y]).astype(np.float32)
    return al.data.as_pool((x[:n], y[:n]), test=(x[n:], y[n:]))


def loop(learner, rounds=2, n=6):
    """Picks of each round, answered by the pool's own labels."""
    asked = []
    for _ in range(rounds):
        batch = learner.ask(n)
        learner.tell(batch.indices, learner.pool.labels[batch.indices])
        learner.fit()
        asked.append(batch.indices.tolist())
    return asked


@pytest.mark.parametrize("strategy", sorted(al.acquire.STRATEGIES))
def test_every_strategy_runs_the_loop_from_zero_labels(strategy):
    net = al.nets.make("mlp", classes=3, shape=(6,), dropout=0.25) if "bald" in strategy else "mlp"
    learner = al.ActiveLearner(blobs(), net=net, learner=FAST, strategy=strategy, seed=1)
    asked = loop(learner)
    assert len({i for batch in asked for i in batch}) == 12
    assert 0 <= learner.score() <= 1
    assert learner.predict_pool().shape == (90, 3)


@pytest.mark.parametrize(
    "learner",
    [
        al.Supervised(steps=60, batch=16),
        al.FixMatch(steps=60, batch=16, mu=2),
        al.MeanTeacher(steps=60, batch=16, lr=0.01),
        al.PiModel(steps=60, batch=16, lr=0.01),
        al.LabelPropagation(neighbours=5),
    ],
    ids=lambda o: type(o).__name__,
)
def test_every_learner_learns_in_the_loop(learner):
    active = al.ActiveLearner(blobs(), net="mlp", learner=learner, strategy="typiclust")
    loop(active, rounds=2, n=9)
    assert active.score() > 0.7  # a third by chance
    assert active.predict_proba(active.pool.test[0]).sum(axis=1) == pytest.approx(np.ones(30))


@pytest.mark.parametrize("net", ["linear", "waves"])
@pytest.mark.parametrize("learner", [*(name for name in al.learn.LEARNERS if name != "fixmatch"), FAST], ids=str)
def test_truth_values_are_features_of_0_and_1(learner, net):
    """Learnt from and predicted as the same rows in floats."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.random((60, 9)) < 0.1 + 0.8 * (np.arange(9) % 3 == y[:, None])
    short = {"supervised", "mean-teacher", "pi-model"}
    options = {"steps": 5, "batch": 4} if learner in short else {}
    learner = al.learn.make(learner, **options) if isinstance(learner, str) else learner
    found = []
    for rows in (x, torch.from_numpy(x), x.astype(np.float32)):
        loop_ = al.ActiveLearner(rows, net=net, learner=learner, classes=3)
        asked = loop_.ask(6).indices
        loop_.tell(asked, y[asked])
        loop_.fit()
        found.append((asked, loop_.predict_proba(rows[:5]), loop_.predict_pool()))
    for arrays in zip(*found, strict=True):
        assert (arrays[0] == arrays[1]).all()
        assert (arrays[0] == arrays[2]).all()


@pytest.mark.parametrize("learner", [al.Auto(), al.LabelPropagation(), al.Supervised(steps=5)])
def test_labels_of_one_class_only_are_said_to_be_so(learner, caplog):
    one = al.ActiveLearner(blobs().x, net="linear", learner=learner, classes=["cat", "dog", "owl"])
    one.tell([0, 1, 2], ["dog"] * 3)
    one.fit()
    assert [record.getMessage() for record in caplog.records] == [
        "all labels so far are of the class 'dog', so the model knows no other and predicts it with certainty; label "
        "an item of another class before you use its probabilities"
    ]
    caplog.clear()
    one.tell([3], ["owl"])
    one.fit()
    assert not caplog.records


def test_same_seed_same_picks_and_asking_twice_changes_nothing():
    one, two = (al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="npc", seed=3) for _ in range(2))
    assert loop(one) == loop(two)
    assert one.ask(5).indices.tolist() == one.ask(5).indices.tolist()
    other = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="npc", seed=4)
    assert loop(other) != loop(two)


def first_weights(learner, monkeypatch):
    """The weights that each fit of two rounds starts from."""
    started = []
    start = learner._start

    def noted():
        net = start()
        started.append(torch.cat([p.detach().flatten().clone() for p in net.parameters()]))
        return net

    monkeypatch.setattr(learner, "_start", noted)
    loop(learner)
    return started


def mine(seed):
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


@pytest.mark.parametrize("net", ["mlp", mine], ids=["by name", "by a function"])
def test_new_weights_are_drawn_for_every_training(net, monkeypatch):
    learner = al.Supervised(steps=2, batch=4)
    made = [
        al.ActiveLearner(blobs(), net=net, learner=learner, strategy="random", fresh=fresh, seed=seed)
        for fresh, seed in (("new", 0), ("new", 0), ("new", 1), (True, 0))
    ]
    new, again, other, same = (first_weights(m, monkeypatch) for m in made)
    assert not torch.equal(*new)
    assert torch.equal(*same)
    assert all(torch.equal(a, b) for a, b in zip(new, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(new, other, strict=True))


def test_new_weights_are_the_same_after_a_save_and_a_load(tmp_path):
    options = {"net": "mlp", "learner": al.Supervised(steps=5, batch=4), "strategy": "random", "fresh": "new"}
    straight = al.ActiveLearner(blobs(), **options)
    loop(straight)
    broken = al.ActiveLearner(blobs(), **options)
    loop(broken, rounds=1)
    broken.save(tmp_path)
    broken = al.ActiveLearner.load(tmp_path)
    loop(broken, rounds=1)
    for a, b in zip(straight.model.parameters(), broken.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_module_has_no_other_weights_to_start_from():
    with pytest.raises(al.AsklessError, match=r"a module only has its own; pass a function that makes it"):
        al.ActiveLearner(blobs(), net=mine(0), fresh="new")
    with pytest.raises(al.AsklessError, match="fresh must be one of True, False, new, got 'never'"):
        al.ActiveLearner(blobs(), fresh="never")
    with pytest.raises(al.AsklessError, match=r"got the class Mine; pass Mine\(\.\.\.\), or lambda seed: Mine"):
        al.ActiveLearner(blobs(), net=type("Mine", (nn.Module,), {}))
    with pytest.raises(al.AsklessError, match="calibrate must be True or False, got 'no'"):
        al.ActiveLearner(blobs(), calibrate="no")
    with pytest.raises(al.AsklessError, match="expected a function that makes a module from a seed, got int from it"):
        al.ActiveLearner(blobs(), net=lambda seed: seed)


def test_an_untrained_network_is_asked_with_the_pools_statistics():
    """With BatchNorm's initial 0 and 1 this one gives every digit the same class."""
    pool = al.data.subset(al.data.digits(), 200)
    seen = {}
    for calibrate in (False, True):
        learner = al.ActiveLearner(pool, net="small-cnn", strategy="entropy", calibrate=calibrate, seed=0)
        classes = learner.observe()["probs"].argmax(1).numpy()
        seen[calibrate] = np.bincount(classes, minlength=10).max() / len(pool)
        assert torch.equal(learner._start().body[0][1].running_mean, torch.zeros(16))  # training starts as ever
    assert seen[False] > 0.9
    assert seen[True] < 0.5


def test_a_trained_network_is_asked_as_it_is(monkeypatch):
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="entropy", seed=0)
    loop(learner, rounds=1)
    monkeypatch.setattr("askless.active.learner.calibrated", None)
    learner.observe()


def test_only_what_the_strategy_needs_is_computed(monkeypatch):
    from askless import kernels

    def never(*args, **kwargs):
        raise AssertionError("not needed")

    for name in ("gradient_stats", "gradient_sq_by_class", "gradient_features"):
        monkeypatch.setattr(kernels, name, never)
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="npc")
    loop(learner)
    monkeypatch.setattr(kernels, "look", never)
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="random")
    learner.ask(3)


def test_all_layers_can_be_looked_at():
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy=al.CRC(bias=False), layers="all")
    assert learner.observe()["features"].shape[1] >= 512
    loop(al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy=al.CRC(by="kernel"), layers="all"))
    redundant = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy=al.DynamicAL(redundancy="exact"))
    loop(redundant, rounds=1)


def test_a_continued_training_starts_from_the_last_weights_and_a_fresh_one_does_not():
    first = {}
    for fresh in (True, False):
        learner = al.ActiveLearner(
            blobs(), net="mlp", learner=al.Supervised(steps=5, batch=8), fresh=fresh, strategy="random"
        )
        loop(learner, rounds=1)
        start = []
        import askless.learn.training as module

        original = module.train

        def spy(net, *args, start=start, original=original, **kwargs):
            start.append(next(net.parameters()).detach().clone())
            return original(net, *args, **kwargs)

        module.train = spy
        try:
            trained = next(learner.model.parameters()).detach().clone()
            learner.fit()
        finally:
            module.train = original
        first[fresh] = torch.equal(start[0], trained)
    assert first == {True: False, False: True}


class MyImages(Dataset):
    """A user's own Dataset: images and labels, no base class of ours."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.targets = rng.integers(2, size=60)
        self.images = rng.normal(size=(60, 1, 8, 8)).astype(np.float32) + 2 * self.targets[:, None, None, None]

    def __len__(self):
        return 60

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), int(self.targets[i])


def test_a_users_own_module_and_dataset_go_through_the_loop():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    before = [p.clone() for p in net.parameters()]
    data = MyImages()
    learner = al.ActiveLearner(data, net=net, learner=al.FixMatch(steps=30, batch=8, mu=2), strategy="badge", classes=2)
    for _ in range(2):
        batch = learner.ask(6)
        learner.tell(batch.indices, data.targets[batch.indices])
        learner.fit()
    assert learner.score(torch.from_numpy(data.images), data.targets) > 0.8
    assert all(
        torch.equal(p, q) for p, q in zip(before, net.parameters(), strict=True)
    )  # the user's module is not touched


class TextClassifier(nn.Module):
    """Embedding, attention, mean, linear."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens):
        x = self.words(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x.mean(dim=1))


@pytest.mark.parametrize("strategy", ["npc", "dynamical"])
def test_a_text_classifier_goes_through_the_loop(strategy):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=80)
    tokens = rng.integers(0, 25, size=(80, 12)) + 25 * y[:, None] * (rng.random((80, 12)) < 0.9)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = TextClassifier()
    learner = al.ActiveLearner(
        tokens,
        net=net,
        learner=al.Supervised(steps=60, batch=16, optimiser="adam", lr=0.01),
        strategy=strategy,
        classes=2,
    )
    for _ in range(2):
        batch = learner.ask(8)
        learner.tell(batch.indices, y[batch.indices])
        learner.fit()
    assert (learner.predict(tokens) == y).mean() > 0.7


def test_a_memory_travels_from_batch_to_batch():
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="albl")
    loop(learner, rounds=3)
    assert sum(len(past) for past in learner.history) == 18
    assert learner.ask(6).info["log_weights"] != [0, 0]


def test_a_strategy_in_two_levels_is_saved_with_the_learner(tmp_path):
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy=al.TwoLevel(of=al.TypiClust(), parts=2))
    loop(learner, rounds=1)
    learner.save(tmp_path / "saved")
    assert al.ActiveLearner.load(tmp_path / "saved").strategy == learner.strategy


def test_names_are_labels_too_and_the_last_wins_only_when_asked():
    pool = blobs()
    learner = al.ActiveLearner(pool.x, net="mlp", learner=FAST, strategy="random", classes=["cat", "dog", "owl"])
    learner.tell([3, 5], ["dog", "owl"])
    assert learner.known_labels.tolist() == [1, 2]
    learner.tell(3, "dog")  # the same again is no news
    with pytest.raises(
        al.InputError, match="item 3 already has the label 'dog', got 'cat'; nothing was stored; pass replace"
    ):
        learner.tell([8, 3], ["cat", "cat"])
    assert 8 not in learner.labels
    learner.tell(3, "cat", replace=True)
    assert learner.labels[3] == 0


BAD = [
    (lambda a: a.tell([1], [3]), "labels from 0 to 2 for 3 classes, got 3 for item 1"),
    (lambda a: a.tell([1], ["cow"]), "unknown class 'cow'; the classes are 0, 1, 2"),
    (lambda a: a.tell([1, 2], [0]), "one label per item, 2, got 1"),
    (lambda a: a.tell([900], [0]), "positions from 0 to 89, got 900"),
    (lambda a: a.tell([1.5], [0]), r"positions as whole numbers, got dtype float64; pass np.array\(pos"),
    (lambda a: a.tell([1], [0.5]), r"class numbers or names, got dtype float64; pass np.array\(lab"),
    (lambda a: a.tell([1, 1], [0, 2]), "item 1 appears twice with different labels"),
    (lambda a: a.fit(), r"at least one labelled item to train on, got none; .* with tell\(positions, labels\)"),
    (lambda a: a.predict(np.zeros((2, 6))), "not been trained yet"),
    (lambda a: a.ask(91), "n = 91 exceeds the 90 unlabelled items"),
    (lambda a: a.comparison(), "random_share, such as 0.2"),
    (lambda a: al.ActiveLearner(np.zeros((5, 2), np.float32), net="mlp"), "pass classes=10"),
    (lambda a: al.ActiveLearner(a.pool, net="mlp", classes=["a", "a"]), "distinct names"),
    (lambda a: al.ActiveLearner(a.pool, net="mlp", random_share=1.0), "random_share must be"),
    (lambda a: al.ActiveLearner(a.pool, net="nonsense"), "unknown net 'nonsense'; the known ones are"),
    (lambda a: al.ActiveLearner(a.pool, net="mlp", strategy="nonsense"), "unknown strategy"),
    (lambda a: al.ActiveLearner(a.pool, net="mlp", seed=-1), "seed must be"),
    (
        lambda a: al.ActiveLearner(a.pool, net=nn.Sequential(nn.Linear(6, 3), nn.Softmax(dim=1))).ask(2),
        "logits, got rows >= 0 that sum to 1, as after a softmax; remove the softmax",
    ),
    (lambda a: a.score(np.zeros((2, 6), np.float32)), "needs the labels y"),
    (lambda a: al.ActiveLearner(a.pool, net="frozen:nonsense"), "unknown backbone 'nonsense'"),
    (lambda a: al.ActiveLearner(a.pool, net="frozen:raw"), "embeds images, got a pool of features"),
    (
        lambda a: al.ActiveLearner(blobs(), net="mlp", learner=al.LabelPropagation(), strategy=al.CRC(by="kernel")).ask(
            1
        ),
        "has no network",
    ),
    (lambda a: al.ActiveLearner(al.data.digits(), learner="label-propagation"), "works on feature vectors"),
]


BAD += [
    (lambda a: a.ask("x"), "n must be a whole number"),
    (lambda a: a.ask(-1), "n must be a whole number"),
    (lambda a: a.tell([[1]], [[0]]), "one axis"),
    (lambda a: trained().score(np.zeros((2, 6), np.float32), [[0], [1]]), r"one label per item, shape \(2,\)"),
    (lambda a: trained().score(np.zeros((2, 6), np.float32), [0, 3]), "labels from 0 to 2, got 0 to 3"),
    (lambda a: al.ActiveLearner(a.pool, net="mlp", learner=al.FixMatch), "expected a learner such as FixMatch"),
    (
        lambda a: al.ActiveLearner(a.pool, net="mlp", learner="fixmach"),
        "unknown learner 'fixmach'; did you mean 'fixmatch'",
    ),
    (lambda a: al.ActiveLearner(a.pool, net="mlp", layers="some"), "layers must be one of last, all"),
    (lambda a: al.ActiveLearner(a.pool, net=nn.Linear(6, 7)), "one output per class, 3, got an output of shape"),
    (lambda a: al.ActiveLearner(a.pool, net=nn.Linear(5, 3)), r"cannot take items of shape \(6,\)"),
    (lambda a: al.ActiveLearner(a.pool, net=nn.Flatten()), "network with parameters"),
]


def trained():
    learner = al.ActiveLearner(blobs(), net="mlp", learner=al.Supervised(steps=2), strategy="random")
    learner.tell([0], [0])
    learner.fit()
    return learner


@pytest.mark.parametrize(("act", "message"), BAD, ids=[b[1][:40] for b in BAD])
def test_bad_input_is_named(act, message):
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="random")
    with pytest.raises(al.AsklessError, match=message):
        act(learner)


def test_a_share_of_random_picks_tells_whether_the_chosen_ones_were_worth_more():
    pool = blobs(n=300)
    learner = al.ActiveLearner(
        pool, net="mlp", learner=al.Supervised(steps=30, batch=16), strategy="margin", random_share=0.5, seed=0
    )
    loop(learner, rounds=4, n=20)
    result = learner.comparison()
    assert result["chosen"]["n"] == result["random"]["n"] == 30  # the first batch came before any model
    assert result["chosen"]["loss"] > result["random"]["loss"]  # margin asks for what the model is unsure of
    assert set(result["loss_difference"]) == {"mean", "low", "high"}
    assert json.dumps(result)


def test_random_items_are_drawn_before_the_others_and_single_questions_get_their_share():
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="margin", random_share=0.25, seed=2)
    random = 0
    for _ in range(40):
        batch = learner.ask(1)
        random += len(batch.info["random"])
        learner.tell(batch.indices, learner.pool.labels[batch.indices])
    assert 4 <= random <= 17
    batch = learner.ask(50)
    assert len(set(batch.indices.tolist())) == 50
    assert set(batch.info["random"]) <= set(batch.indices.tolist())


def test_frozen_layers_of_a_users_module_stay_as_they_are():
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    net[0].requires_grad_(False)
    learner = al.ActiveLearner(blobs(), net=net, learner=al.FixMatch(steps=10, batch=8, mu=2), strategy="random")
    loop(learner, rounds=1)
    assert torch.equal(learner.model[0].weight, net[0].weight)
    assert not torch.equal(learner.model[2].weight, net[2].weight)
    assert [p.requires_grad for p in learner.model.parameters()] == [False, False, True, True]


@pytest.mark.parametrize("strategy", ["random", "dynamical", al.EGL(layers="all"), al.CRC(by="kernel", group=2)])
def test_a_module_whose_layers_are_all_frozen_is_refused_in_a_sentence(strategy):
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).requires_grad_(False)
    learner = al.ActiveLearner(blobs(), net=net, learner=al.FixMatch(steps=2, batch=4, mu=1), strategy=strategy)
    learner.tell([0, 1, 2], [0, 1, 2])
    with pytest.raises(al.AsklessError, match="expected a network with parameters to train, got one whose parameters"):
        learner.fit()


@pytest.mark.parametrize("strategy", ["dynamical", al.DynamicAL(redundancy="exact"), al.EGL(layers="all")])
def test_a_block_under_two_names_is_asked_about_and_saved(tmp_path, strategy):
    def net():
        block = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())
        return nn.Sequential(block, block, nn.Linear(6, 3))

    learner = al.ActiveLearner(blobs(), net=net(), learner=al.Supervised(steps=3), strategy=strategy)
    learner.tell([0, 1, 2], [0, 1, 2])
    learner.fit()
    picks = learner.ask(5).indices
    assert all(p.requires_grad for p in learner.model.parameters())
    assert len(list(learner.model.parameters())) == 6
    learner.save(tmp_path)
    again = al.ActiveLearner.load(tmp_path, net=net())
    assert again.ask(5).indices.tolist() == picks.tolist()


def test_labels_outside_may_be_names_and_images_must_be_in_range():
    learner = trained()
    x, y = learner.pool.test
    assert learner.score(x, [str(i) for i in y]) == learner.score(x, y)
    images = al.ActiveLearner(al.data.digits(), learner=al.Supervised(steps=2))
    images.start_balanced()
    images.fit()
    with pytest.raises(al.InputError, match=r"float in \[0, 1\], got floats from 0 to 255"):
        images.predict(images.pool.test[0].float())


def test_a_training_that_fails_leaves_the_last_good_weights_in_use():
    learner = al.ActiveLearner(blobs(), net="mlp", learner=al.Supervised(steps=300, lr=1e30, weight_decay=1.0))
    learner.tell([0, 1], [0, 1])
    with pytest.raises(al.learn.TrainingError):
        learner.fit()
    assert np.isfinite(learner.predict_pool()).all()


def test_balanced_start_of_the_papers():
    learner = al.ActiveLearner(al.data.digits(), learner=FAST)
    positions = learner.start_balanced(2)
    assert np.bincount(learner.pool.labels[positions]).tolist() == [2] * 10
    with pytest.raises(al.InputError, match="with known labels in the pool"):
        al.ActiveLearner(np.eye(5, 2, dtype=np.float32), net="mlp", classes=2).start_balanced()


def test_albl_remembers_items_of_the_pool_whatever_is_left_out():
    learner = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="albl")
    for _ in range(3):
        picks = learner.ask(4, exclude=[0, 1, 2, 5])
        assert len(picks.info["chances"]) == 4
        assert learner.asks[-1].indices.tolist() == picks.indices.tolist()
        learner.tell(picks.indices, learner.pool.labels[picks.indices])
        learner.fit()
    assert {i for past in learner.history for i in past.indices.tolist()} == set(learner.labels)
    again = al.ActiveLearner(blobs(), net="mlp", learner=FAST, strategy="albl")
    again.labels, again.learnt, again.asks = learner.labels, learner.learnt, learner.asks
    assert again.ask(4, exclude=[0, 1]).info["log_weights"] == learner.ask(4).info["log_weights"] != [0, 0]


@pytest.mark.parametrize("kind", ["network", "propagation", "albl", "own module"])
def test_a_saved_learner_goes_on_as_if_nothing_had_happened(kind, tmp_path):
    options = {
        "network": {"net": "mlp", "learner": FAST, "strategy": "npc", "random_share": 0.5},
        "propagation": {"net": "mlp", "learner": al.LabelPropagation(neighbours=5), "strategy": "badge"},
        "albl": {"net": "mlp", "learner": FAST, "strategy": "albl"},
        "own module": {
            "net": nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)),
            "learner": FAST,
            "strategy": "npc",
        },
    }[kind]
    learner = al.ActiveLearner(blobs(), seed=5, **options)
    loop(learner)
    learner.save(tmp_path / "saved")
    learner.save(tmp_path / "saved")
    again = {"net": options["net"]} if kind == "own module" else {}
    loaded = al.ActiveLearner.load(tmp_path / "saved", **again)
    assert np.array_equal(learner.predict_pool(), loaded.predict_pool())
    assert loaded.labels == learner.labels
    assert loop(learner, rounds=1) == loop(loaded, rounds=1)
    assert np.array_equal(learner.predict_pool(), loaded.predict_pool())


def test_labels_told_after_the_last_fit_are_saved_as_such(tmp_path):
    learner = al.ActiveLearner(blobs(), net="mlp", learner=al.LabelPropagation(neighbours=5), strategy="margin")
    loop(learner, rounds=1)
    learner.tell([0, 1, 2], learner.pool.labels[[0, 1, 2]], replace=True)
    learner.save(tmp_path)
    loaded = al.ActiveLearner.load(tmp_path)
    assert np.array_equal(loaded.predict_pool(), learner.predict_pool())
    assert np.array_equal(loaded.ask(5).indices, learner.ask(5).indices)
    assert loaded.labels == learner.labels


def test_options_of_any_number_type_and_what_is_known_of_the_pool_survive(tmp_path):
    import dataclasses

    pool = dataclasses.replace(
        blobs(), skipped=(("a.png", "broken"),), columns={"site": tuple("x" * 90)}, ids=tuple(map(str, range(90)))
    )
    learner = al.ActiveLearner(pool, net="mlp", learner=al.FixMatch(steps=np.int64(5), ema=np.float32(0.5)))
    learner.save(tmp_path)
    loaded = al.ActiveLearner.load(tmp_path)
    assert (loaded.learner.steps, loaded.learner.ema) == (5, 0.5)
    assert loaded.pool.skipped == pool.skipped
    assert loaded.pool.columns == pool.columns
    assert loaded.pool.ids == pool.ids


def test_own_views_are_asked_for_and_files_outside_are_not_read(tmp_path):
    pool = blobs()
    views = al.data.PlainViews(pool, noise=0.1)
    learner = al.ActiveLearner(pool, net="mlp", learner=FAST, strategy="random", views=views)
    learner.save(tmp_path / "one")
    with pytest.raises(al.AsklessError, match="the views were your own object"):
        al.ActiveLearner.load(tmp_path / "one")
    al.ActiveLearner.load(tmp_path / "one", views=views)
    with pytest.raises(al.AsklessError, match="expected the pool of 90 items"):
        al.ActiveLearner.load(tmp_path / "one", views=views, pool=blobs(n=40))
    state = json.loads((tmp_path / "one" / "learner.json").read_text())
    state["networks"]["first"] = "../" + state["networks"]["first"]
    (tmp_path / "one" / "learner.json").write_text(json.dumps(state))
    with pytest.raises(al.AsklessError, match="lacks"):
        al.ActiveLearner.load(tmp_path / "one", views=views)
    del state["plain"]
    (tmp_path / "one" / "learner.json").write_text(json.dumps(state))
    with pytest.raises(al.AsklessError, match="was not written by"):
        al.ActiveLearner.load(tmp_path / "one", views=views)


def test_what_cannot_be_saved_has_to_be_passed_again(tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    learner = al.ActiveLearner(MyImages(), net=net, learner=FAST, strategy="random", classes=2)
    learner.tell([0], [1])
    learner.save(tmp_path)
    with pytest.raises(al.AsklessError, match=r"the pool was your own object.*pass load\(..., pool=...\)"):
        al.ActiveLearner.load(tmp_path)
    with pytest.raises(al.AsklessError, match="the net was your own object"):
        al.ActiveLearner.load(tmp_path, pool=MyImages())
    with pytest.raises(al.AsklessError, match="does not fit the network"):
        al.ActiveLearner.load(
            tmp_path, pool=MyImages(), net=nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.Linear(3, 2))
        )
    with pytest.raises(
        al.AsklessError, match=r"network \(only one of the two has 2\.bias, 2\.weight\); pass the saved module"
    ):
        al.ActiveLearner.load(tmp_path, pool=MyImages(), net=nn.Sequential(*net, nn.Linear(2, 2)))
    assert al.ActiveLearner.load(tmp_path, pool=MyImages(), net=net).labels == {0: 1}
    with pytest.raises(al.AsklessError, match=r"has no learner\.json"):
        al.ActiveLearner.load(tmp_path / "nowhere")
    (tmp_path / "learner.json").write_text("{")
    with pytest.raises(al.AsklessError, match=r"was not written by ActiveLearner\.save"):
        al.ActiveLearner.load(tmp_path)


SCRIPT = """
import sys, os, signal
import numpy as np, torch
torch.set_num_threads(1)
import askless as al

folder, kill_at = sys.argv[1], sys.argv[2]
state = os.path.join(folder, "learner")
if os.path.exists(state):
    learner = al.ActiveLearner.load(state)
else:
    learner = al.ActiveLearner(
        al.data.subset(al.data.digits(), 300), net="small-cnn", strategy="npc", seed=0,
        learner=al.FixMatch(steps=24, batch=8, mu=2, darp=al.DARP(), checkpoint_every=5),
    )
    learner.start_balanced()
    learner.save(state)

def watch(done, total, numbers):
    if kill_at == f"fit {len(learner.labels)} {done}":
        os.kill(os.getpid(), signal.SIGKILL)

while True:
    checkpoint = os.path.join(folder, f"fit-{len(learner.labels)}.pt")
    if not learner.is_fitted or learner.rounds[-1]["labels"] < len(learner.labels):
        learner.fit(checkpoint=checkpoint, watch=watch)
        learner.save(state)
    if len(learner.labels) >= 30:
        break
    if kill_at == f"ask {len(learner.labels)}":
        original = al.kernels.look
        def killed(*a, **k):
            os.kill(os.getpid(), signal.SIGKILL)
        al.kernels.look = killed
    batch = learner.ask(10)
    learner.tell(batch.indices, learner.pool.labels[batch.indices])
    learner.save(state)
weights = torch.cat([t.flatten().double() for t in learner.model.state_dict().values()])
sums = weights.sum().item(), weights.abs().sum().item(), weights.square().sum().item()
with open(os.path.join(folder, "end.txt"), "w") as end:
    print(learner.labelled.tolist(), *sums, file=end)
"""


def test_killed_while_fitting_and_while_asking_it_ends_with_the_same_weights_and_picks(tmp_path, run_script):
    script = tmp_path / "loop.py"
    script.write_text(SCRIPT)

    def run(folder, kill_at="never"):
        (tmp_path / folder).mkdir(exist_ok=True)
        process = run_script(script, tmp_path / folder, kill_at)
        process.join()
        return process.exitcode

    assert run("whole") == 0
    for kill_at in ("fit 10 13", "ask 10", "fit 20 17", "ask 20"):
        assert run("broken", kill_at) == -9
    assert run("broken") == 0
    assert (tmp_path / "broken" / "end.txt").read_text() == (tmp_path / "whole" / "end.txt").read_text()


def test_a_learner_saved_without_its_pool_wants_it_again(tmp_path):
    pool = al.data.subset(al.data.digits(), 60)
    learner = al.ActiveLearner(pool, net="linear", learner=al.Supervised(steps=3), strategy="margin", seed=1)
    learner.start_balanced(1)
    learner.fit()
    learner.save(tmp_path, pool=False)
    assert not list(tmp_path.glob("pool-*"))
    with pytest.raises(al.AsklessError, match=r"left out; pass load\(..., pool=...\)"):
        al.ActiveLearner.load(tmp_path)
    for again in (al.ActiveLearner.load(tmp_path, pool=pool), al.ActiveLearner.load(tmp_path, pool)):
        assert again.ask(5).indices.tolist() == learner.ask(5).indices.tolist()


class Vectors(torch.utils.data.Dataset):
    def __len__(self):
        return 30

    def __getitem__(self, i):
        return torch.eye(5)[i % 5], i % 5


@pytest.mark.parametrize("learner", [al.Supervised(steps=3), al.LabelPropagation()], ids=lambda o: type(o).__name__)
def test_vectors_have_a_network_by_default(learner, tmp_path):
    pool = blobs()
    for vectors in (pool.x, pool.x.double(), Vectors()):
        assert al.ActiveLearner(vectors, learner=learner, classes=5).net == "waves"
    assert al.ActiveLearner(torch.randn(9, 65), learner=learner, classes=5).net == "linear"
    active = al.ActiveLearner(pool, learner=learner)
    loop(active)
    active.save(tmp_path)
    assert al.ActiveLearner.load(tmp_path).ask(5).indices.tolist() == active.ask(5).indices.tolist()
    assert al.ActiveLearner(al.data.digits(), learner=al.Supervised(steps=3)).net == "small-cnn"
