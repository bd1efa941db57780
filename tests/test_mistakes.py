"""What engineers and researchers do wrong, or a little differently, and what comes of it: a row each.

A row has a name, what the user does, and what must come. True: it works, and the act says whether it gave the right thing.
A text: an error whose message has its three parts, divided by "|", in this order: what was expected, what came, what to do.
"""
# ruff: noqa: E501 (a row is a line)

import re

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import askless as al
from askless.bench import Benchmark, Data, Row

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 5))
P = rng.dirichlet(np.ones(3), size=30)
y = np.arange(30) % 3
NAMES = np.array(["cat", "dog", "owl"])
ONE_HOT = np.eye(3)
PICKS = al.select("coreset", 4, features=X)


class Index:
    """A pandas index, as far as it is looked at."""

    def __init__(self, values):
        self.values = values

    def get_indexer(self, rows):
        raise NotImplementedError

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


class Frame:
    """A table of pandas or polars, as far as it is looked at."""

    def __init__(self, **columns):
        self.columns, self.content = list(columns), list(columns.values())

    def to_numpy(self):
        return np.array(self.content, dtype=object).T

    def __array__(self, dtype=None, copy=None):
        return np.array(self.to_numpy(), dtype)


class Own:
    """A strategy of one's own, with one way to choose."""

    name, needs = "own", ("features",)

    def __init__(self, choose, **changed):
        self.choose = choose
        self.__dict__.update(changed)

    def select(self, view, n, rng):
        return self.choose(view, n, rng)


class NoName:
    needs = ("features",)

    def select(self, view, n, rng):
        return al.Selection(view.unlabelled[:n])


class NoNeeds:
    name = "mine"

    def select(self, view, n, rng):
        return al.Selection(view.features[:, 0].argsort()[:n])


class NoGenerator:
    name, needs = "mine", ()

    def select(self, view, n):
        return al.Selection(view.unlabelled[:n])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


class Dicts(torch.utils.data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return {"pixels": torch.zeros(2), "label": 0}


class DictOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return {"logits": self.head(x)}


def first(view, n, rng):
    return al.Selection(view.unlabelled[:n])


def same(picks, **properly):
    """Whether these are the picks that the proper call gives."""
    return np.array_equal(picks, al.select("coreset", 3, **{"features": X, "labelled": [1, 5], **properly}))


def coreset(**given):
    return al.select("coreset", 3, **{"features": X, "labelled": [1, 5], **given})


def loop(pool=None, **options):
    quick = {"net": "linear", "learner": al.Supervised(steps=1), "strategy": "random"}
    return al.ActiveLearner(al.data.as_pool((X, y)) if pool is None else pool, **{**quick, **options})


def told(*answers, **options):
    """The labels of a loop that was told so."""
    learner = loop(**options)
    learner.tell(*answers)
    return learner.labels


def fitted():
    learner = loop()
    learner.tell(np.arange(9), y[:9])
    learner.fit()
    return learner


def asked_and_told():
    learner = loop()
    batch = learner.ask(3)
    learner.tell(batch, y[batch])
    return learner.labels == {i: y[i] for i in batch.indices.tolist()}


def taught(learner):
    learning = loop(learner=learner)
    learning.tell(range(6), y[:6])
    return learning.fit()


def checked(strategy):
    al.testing.check_strategy(strategy)


def run_on(**options):
    np.savez("rows.npz", X=X.astype("float32"))
    return al.Run.create("rows.npz", "run", **{"classes": ["a", "b"], "budget": 6, "check": 0.0, "batch": 3, **options})


def telling(answers):
    with run_on() as run:
        while run.advance():
            pass
        run.tell(answers(run))
        return len(run.waiting()) == 0


def row(**options):
    made = {"method": "m", "strategy": "random", "data": Data(name="digits"), "net": "linear", "counts": (5,)}
    return Row(**{**made, "learner": "auto", **options})


def table(name, content):
    with open(name, "w") as file:
        file.write(content)
    return name


def refuses_to_be_one_of_the_labelled():
    return al.select(Own(lambda view, n, rng: al.Selection(np.arange(n))), 3, features=X, labelled=[1])


MISTAKES = [
    # --- select
    ("a set of positions", lambda: same(coreset(labelled={5, 1})), True),
    ("a selection as what is labelled", lambda: same(coreset(labelled=PICKS), labelled=PICKS.indices), True),
    ("a selection and more in one list", lambda: same(coreset(labelled=[*PICKS, 9]), labelled=[*PICKS.indices, 9]), True),
    ("concatenated with earlier picks", lambda: np.concatenate([[29], PICKS]).tolist() == [29, *PICKS.indices], True),
    ("rows, labels and files of a selection", lambda: (X[PICKS] == X[PICKS.indices]).all() and [NAMES[y[i]] for i in PICKS], True),
    ("a tensor at a selection", lambda: torch.equal(torch.arange(30)[PICKS], torch.from_numpy(PICKS.indices)), True),
    ("a Subset of a selection", lambda: len(Subset(TensorDataset(torch.zeros(30)), PICKS)) == 4, True),
    ("lists in place of arrays", lambda: same(coreset(features=X.tolist(), labelled=(1, 5))), True),
    ("a list of tensors", lambda: same(coreset(features=list(torch.from_numpy(X)))), True),
    ("features that still have a gradient", lambda: same(coreset(features=torch.tensor(X, requires_grad=True))), True),
    ("a sparse matrix", lambda: same(coreset(features=csr_matrix(X))), True),
    ("a frame of mixed number columns", lambda: same(coreset(features=Frame(a=X[:, 0], b=y)), features=np.c_[X[:, 0], y]), True),
    ("a frame with a column of text", lambda: coreset(features=Frame(size=y, city=["Oslo"] * 30)), "expected columns of numbers|got 'Oslo' in column 'city'|drop"),
    ("a frame with a missing value", lambda: coreset(features=Frame(size=[None, *y[1:]])), "expected columns of numbers|got None in column 'size'|drop"),
    ("a pandas index for positions", lambda: coreset(labelled=Index([1, 5])), "expected positions|got a pandas index|np.flatnonzero(df.index.isin"),
    ("a mask for positions", lambda: coreset(labelled=y == 0), "expected whole numbers|bool|np.flatnonzero(mask)"),
    ("a set, with labels", lambda: coreset(labelled={1, 5}, labels=[0, 1]), "expected a list|got a set|pass two lists"),
    ("one position in place of a list", lambda: coreset(labelled=5), "expected one axis|got shape ()|np.ravel"),
    ("positions in the unlabelled part", lambda: coreset(labelled=[30]), "expected positions from 0 to 29|got 30 at place 0|positions in the whole pool"),
    ("a position twice", lambda: coreset(labelled=[1, 5, 1]), "expected each position once|got position 1 twice|keep one"),
    ("features without their name", lambda: al.select("coreset", 3, X), "expected strategy and n|got 3 arguments|features=X"),
    ("features and n the other way round", lambda: al.select("coreset", X, 3), "expected strategy and n|got 3 arguments|features=X"),
    ("features in the place of n", lambda: al.select("coreset", X, features=X), "whole number|got an array of shape (30, 5)|number of items"),
    ("no n", lambda: al.select("coreset", features=X), "expected n|got none|write select('npc', 20"),
    ("features in the place of the strategy", lambda: al.select(X, 3), "expected a strategy's name|got an array of shape (30, 5)|write 'npc'"),
    ("X= as in scikit-learn", lambda: al.select("coreset", 3, X=X), "it takes strategy, n|features|options"),
    ("labeled= in American", lambda: coreset(labeled=[1]), "unknown argument labeled|did you mean 'labelled'|it takes"),
    ("an option of the strategy", lambda: coreset(draws=500), "unknown argument draws|go into the strategy|NPC(draws=5000)"),
    ("a class in place of an object", lambda: al.select(al.NPC, 3, features=X), "expected a strategy|got the class NPC|write NPC()"),
    ("a name in capitals", lambda: al.select("BADGE", 3, features=X, probs=P), "unknown strategy 'BADGE'|did you mean 'badge'|known"),
    ("a misspelt option", lambda: al.NPC(drawz=500), "NPC: got drawz|its options are|draws"),
    ("n as a share", lambda: al.select("coreset", 0.1, features=X), "whole number|got 0.1|number of items"),
    ("more than there are", lambda: al.select("coreset", 31, features=X), "n = 31 exceeds|30 unlabelled|lower n"),
    ("n of numpy", lambda: len(al.select("coreset", np.int64(3), features=X)) == 3, True),
    ("probabilities of one class", lambda: al.select("margin", 3, probs=P[:, 0]), "expected shape (N, C)|got (30,)|np.column_stack"),
    ("the same as a column", lambda: al.select("margin", 3, probs=P[:, :1]), "rows >= 0 that sum to 1|sum|np.hstack([1 - p, p])"),
    ("logits as probabilities", lambda: al.select("margin", 3, probs=X), "rows >= 0 that sum to 1|got row 0|logits="),
    ("probabilities of the unlabelled alone", lambda: al.select("badge", 3, features=X, probs=P[2:]), "same number of rows|features 30, probs 28|same items"),
    ("no probabilities", lambda: al.select("badge", 3, features=X), "badge needs probs|missing|pass probs="),
    ("labels of all items", lambda: coreset(labels=y), "expected one per labelled item, 2|got 30|labels[labelled]"),
    ("one-hot labels", lambda: coreset(labels=ONE_HOT[:2]), "one class number per item|got shape (2, 3)|argmax(axis=1)"),
    ("names for labels", lambda: coreset(labels=["cat", "dog"]), "expected whole numbers|<U3|np.unique(labels, return_inverse=True)"),
    ("NaN among the features", lambda: coreset(features=np.where(X > 2, np.nan, X)), "expected finite numbers|got nan in row|fix"),
    ("images in place of features", lambda: coreset(features=np.zeros((30, 3, 4, 4))), "expected shape (N, d)|got (30, 3, 4, 4)|reshape"),
    ("one number per item", lambda: coreset(features=X[:, 0]), "expected shape (N, d)|got (30,)|reshape"),
    ("the path of the features", lambda: coreset(features="features.npy"), "expected numbers|<U12|np.load('features.npy')"),
    ("the array as pool=", lambda: al.select("random", 3, pool=X), "expected the number of items|got an array of shape (30, 5)|features=X"),
    ("the last picks as history", lambda: coreset(history=PICKS), "expected a list|got <Selection of 4|pass [first, second]"),
    ("a RandomState as seed", lambda: coreset(seed=np.random.RandomState(0)), "seed must be|got RandomState|np.random.default_rng(0)"),
    ("a label beyond the classes", lambda: coreset(labels=[0, 3], classes=3), "from 0 to 2 for 3 classes|got 3 at place 1|fix the label"),
    ("no seed", lambda: coreset(seed=None).info["seed"] >= 0, True),
    # --- own strategies
    ("an array returned", lambda: al.select(Own(lambda v, n, r: v.unlabelled[:n]), 3, features=X), "must return a Selection|got an array of shape (3,)|al.Selection(picks)"),
    ("nothing returned", lambda: al.select(Own(lambda v, n, r: None), 3, features=X), "must return a Selection|got None|al.Selection(picks)"),
    ("a list of picks", lambda: al.select(Own(lambda v, n, r: al.Selection([1, 2, 3])), 3, features=X), "int64 positions of shape (3,)|got list|np.array(picks, np.int64)"),
    ("what is labelled already", refuses_to_be_one_of_the_labelled, "distinct unlabelled positions|got [0 1 2]|view.unlabelled"),
    ("no needs", lambda: al.select(NoNeeds(), 3, features=X), "expected needs|got none|write needs = ("),
    ("needs that is a text", lambda: al.select(Own(first, needs="features"), 3, features=X), "as a tuple|got 'features'|write needs = ("),
    ("a misspelt array in needs", lambda: al.select(Own(first, needs=("feature",)), 3, features=X), "unknown array 'feature'|did you mean 'features'|known"),
    ("a misspelt array in the code", lambda: al.select(Own(lambda v, n, r: v["featurs"]), 3, features=X), "unknown array 'featurs'|did you mean 'features'|known"),
    ("an array that is not in needs", lambda: al.select(Own(lambda v, n, r: v["probs"]), 3, features=X), "expected an array that the strategy needs|got 'probs'|add it to needs"),
    ("no name", lambda: al.select(NoName(), 3, features=X), 'expected a name|got none|write name = "noname"'),
    ("select without the generator", lambda: al.select(NoGenerator(), 3, features=X), "expected select(self, view, n, rng)|got select(view, n)|three"),
    ("checked: an array returned", lambda: checked(Own(lambda v, n, r: v.unlabelled[:n])), "1. |must return a Selection|al.Selection(picks)"),
    ("checked: no needs, and no name", lambda: checked(NoNeeds()), "1. |expected needs|write needs = ("),
    ("checked: a class", lambda: checked(al.NPC), "1. |got the class NPC|write NPC()"),
    ("checked: a name", lambda: checked("margin") is None, True),
    ("checked: an array that is None", lambda: checked(Own(lambda v, n, r: v.probs.max())), "select raised AttributeError in line|probs|add the one it uses to needs"),
    ("checked: its own generator", lambda: checked(Own(lambda v, n, r: al.Selection(rng.permutation(v.unlabelled)[:n]))), "same seed gave different picks|draw|rng"),
    ("checked: it writes into the features", lambda: checked(Own(lambda v, n, r: v.features.sort(axis=0) or first(v, n, r))), "1. |read-only|work on a copy"),
    # --- ask, tell, fit, predict
    ("tell takes what ask gave", asked_and_told, True),
    ("what was learnt is said in a line", lambda: repr(taught("auto")).startswith("<Distilled Linear: "), True),
    ("and without a network too", lambda: repr(taught("label-propagation")).startswith("<Propagated: "), True),
    ("a strategy and a learner by name", lambda: "Auto()" in repr(loop(learner="auto", strategy="npc")), True),
    ("a class for the strategy", lambda: loop(strategy=al.NPC), "expected a strategy|got the class NPC|write NPC()"),
    ("a class for the learner", lambda: loop(learner=al.FixMatch), "expected a learner|FixMatch|pass one of 'auto'"),
    ("a scikit-learn classifier as learner", lambda: loop(learner=LogisticRegression()), "expected a learner|got LogisticRegression()|ActiveClassifier"),
    ("an unknown learner", lambda: loop(learner="fix-match"), "unknown learner|did you mean 'fixmatch'|known"),
    ("labels without a name", lambda: al.ActiveLearner(X, y), "expected pool|got 2 arguments|(X, y)"),
    ("y= to the learner", lambda: al.ActiveLearner(X, y=y), "unknown argument y|it takes pool|classes"),
    ("no classes", lambda: al.ActiveLearner(X), "classes|pass classes=10|or classes="),
    ("classes in one text", lambda: loop(classes="cat,dog,owl"), "expected their number or their names|got the text|pass ['cat', 'dog']"),
    ("one class", lambda: loop(pool=al.data.as_pool(X), classes=["cat"]), "at least two classes|got cat|pass classes="),
    ("a network that ends in softmax", lambda: loop(net=nn.Sequential(nn.Linear(5, 3), nn.Softmax(1)), strategy="margin"), "returns logits|got rows >= 0 that sum to 1|remove the softmax"),
    ("a network with one output", lambda: loop(net=nn.Linear(5, 1)), "one output per class, 3|got an output of shape (1,)|linear layer with 3 outputs"),
    ("a network for other items", lambda: loop(net=nn.Linear(7, 3)), "cannot take items of shape (5,)|mat1|use a network"),
    ("a network that returns a dict", lambda: loop(net=DictOut()), "expected the model to return logits|got a dict|wrap it"),
    ("a class for the network", lambda: loop(net=DictOut), "expected a module|got the class DictOut|pass DictOut(...)"),
    ("a misspelt network", lambda: loop(net="resnet18"), "unknown net|did you mean 'resnet-18'|known"),
    ("text and no backbone", lambda: loop(pool=["one text", "another"], classes=2), "embedded|use net='frozen:tfidf'|words"),
    ("ask for a share", lambda: loop().ask(0.1), "whole number|got 0.1|number of items"),
    ("ask for too many", lambda: loop().ask(31), "n = 31 exceeds|30|lower n"),
    ("exclude a selection, or a set", lambda: not {*loop().ask(26, exclude=PICKS)} & {*PICKS} and len(loop().ask(28, exclude={1, 2})) == 28, True),
    ("exclude by a mask", lambda: loop().ask(3, exclude=y == 0), "exclude: expected whole numbers|got bool|np.flatnonzero(mask)"),
    ("names for labels, and a tensor", lambda: told(torch.tensor([3, 4]), ["dog", "owl"], classes=list(NAMES)) == {3: 1, 4: 2}, True),
    ("tell a set", lambda: told({1, 2}, [0, 1]), "expected positions in the order of their labels|got a set|pass a list"),
    ("tell a dict", lambda: told({1: 0}), "expected labels|got none|tell(batch, labels)"),
    ("tell by a mask", lambda: told(y == 0, y[y == 0]), "expected positions|got a mask|np.flatnonzero(mask)"),
    ("tell one-hot labels", lambda: told([1, 2], ONE_HOT[:2]), "one class per item|got shape (2, 3)|argmax(axis=1)"),
    ("tell labels first", lambda: told(["cat", "dog"], [1, 2], classes=list(NAMES)), "expected positions first|got 'cat'|tell(positions, labels)"),
    ("tell None where nobody knew", lambda: told([1, 2], [0, None]), "expected a class for every item|got None|leave out"),
    ("tell classes counted from 1", lambda: told([1, 2], [1, 3]), "expected labels from 0 to 2|got 3 for item 2|fix the label"),
    ("tell an unknown class", lambda: told([1], ["cow"], classes=list(NAMES)), "unknown class 'cow'|the classes are|cat, dog, owl"),
    ("tell another label", lambda: told([1, 1], [0, 2]), "item 1 appears twice|different labels|pass it once"),
    ("tell a label too few", lambda: told([1, 2], [0]), "expected one label per item|2, got 1|leave out the items without one"),
    ("fit before tell", lambda: loop().fit(), "at least one labelled item|got none|tell(positions, labels)"),
    ("predict before fit", lambda: loop().predict(X), "not been trained|tell it some labels|call fit()"),
    ("predict one item, a list, a sparse matrix", lambda: [len(fitted().predict(x)) for x in (X[0], X.tolist(), csr_matrix(X))] == [1, 30, 30], True),
    ("predict items of another width", lambda: fitted().predict(X[:, :4]), "expected shape (5,)|got (4,)|prepare them like the pool"),
    ("predict an item with a gap", lambda: fitted().predict(np.where(X > 2, np.nan, X)), "expected finite numbers|nan|leave out the row"),
    ("validation items without labels", lambda: fitted().fit(validation=X), "expected a pair (x, y)|got an array of shape (30, 5)|validation=(x, y)"),
    ("a device that there is not", lambda: loop(device="gpu"), "expected 'cpu', 'cuda'|got 'gpu'|pass one of these"),
    ("a position beyond the pool", lambda: loop().tell([99], [0]), "expected labelled positions from 0 to 29|got 99|positions in the pool"),
    ("a misspelt name of the package", lambda: al.Margins, "has no attribute 'Margins'|did you mean|'Margin'?"),
    ("score without a test set", lambda: fitted().score(), "needs items with known labels|no held-out test|pass x and y"),
    ("no seed for the loop", lambda: loop(seed=None).seed >= 0, True),
    # --- pools and data
    ("labels in a list of two arrays", lambda: al.data.as_pool([X, y]), "expected a pair (x, y)|got a list|pass the tuple"),
    ("one-hot labels of a pool", lambda: al.data.as_pool((X, ONE_HOT[y])), "expected one per item|got (30, 3)|argmax(axis=1)"),
    ("NaN for unknown labels", lambda: al.data.as_pool((X, np.where(y == 2, np.nan, y))), "-1 = unknown|got dtype float64|np.nan_to_num(y, nan=-1)"),
    ("a sparse pool", lambda: al.data.as_pool(csr_matrix(X)).shape == (5,), True),
    ("a frame as a pool", lambda: al.data.as_pool(Frame(a=y, b=["Oslo"] * 30)), "expected columns of numbers|got 'Oslo' in column 'b'|drop"),
    ("a pool made directly of arrays", lambda: len(loop(pool=al.Pool(X, y)).ask(2)) == 2, True),
    ("a DataLoader", lambda: al.data.as_pool(DataLoader(TensorDataset(torch.zeros(3, 2)))), "expected items by position|got DataLoader|.dataset"),
    ("a Dataset without a length", lambda: al.data.as_pool(Stream()), "with a length and positions|got Stream|read it into a list first"),
    ("a Dataset of dicts", lambda: al.data.as_pool(Dicts()), "expected x or (x, y)|got dict with keys pixels, label|wrap"),
    ("a path as a pool", lambda: al.data.as_pool("photos"), "expected an array|got the path 'photos'|data.load(path)"),
    ("pixels up to 255 as floats", lambda: loop(pool=al.data.as_pool(np.full((4, 3, 8, 8), 255.0)), net="small-cnn", classes=2), "float in [0, 1]|got floats|scale them"),
    ("take and subset by a selection or a set", lambda: len(al.data.as_pool(X).take({3, 1})) == 2 and len(al.data.subset(al.data.as_pool(X), PICKS)) == 4, True),
    ("a misspelt data set", lambda: al.data.load("digit"), "expected a path, or one of|digits|got neither"),
    # --- kernels, theory, darp
    ("arrays and lists for a kernel", lambda: al.kernels.ntk(nn.Linear(2, 3), [[1.0, 2.0]]).tolist() == al.kernels.ntk(nn.Linear(2, 3), np.array([[1.0, 2.0]])).tolist(), True),
    ("x and the model the other way round", lambda: al.kernels.gradient_stats(torch.zeros(2, 2), nn.Linear(2, 3)), "expected a tensor|got Linear|pass (model, x)"),
    ("a function for the model", lambda: al.kernels.ntk(len, torch.zeros(2, 2)), "expected a torch module|got <built-in function len>|pass (model, x)"),
    ("examples of another width", lambda: al.kernels.ntk(nn.Linear(2, 3), torch.zeros(2, 5)), "examples that the model can take|shape (5,)|as the model takes it"),
    ("a kernel of a softmax", lambda: al.kernels.ntk(nn.Sequential(nn.Linear(2, 3), nn.Softmax(1)), torch.zeros(2, 2)), "output of a linear layer|a softmax|pass head="),
    ("layers that there are not", lambda: al.kernels.ntk(nn.Linear(2, 3), torch.zeros(2, 2), layers="first"), 'layers must be "last"|"all"|got \'first\''),
    ("features in place of a kernel", lambda: al.theory.alignment(X, ONE_HOT[y]), "expected a square kernel|got (30, 5)|pass K(x, x)"),
    ("class numbers in place of targets", lambda: al.theory.alignment(X @ X.T, y), "expected targets|got class numbers|one_hot(labels, C)"),
    ("logits to darp", lambda: al.darp(X), "rows >= 0 that sum to 1|got row 0|apply softmax"),
    # --- learners
    ("an option without its name", lambda: al.FixMatch(500), "got an option without a name|its options are|steps"),
    ("a misspelt option of a learner", lambda: al.FixMatch(step=500), "got step|its options are|steps"),
    ("a text for a number", lambda: al.FixMatch(lr="0.1"), "must be a number|>= 0|got '0.1'"),
    ("label propagation on images", lambda: al.ActiveLearner(al.data.digits(), learner="label-propagation"), "works on feature vectors|got|frozen"),
    # --- runs
    ("a folder that is not there", lambda: al.Run.create("photos", "run"), "photos: expected a folder|found nothing there|check the path"),
    ("a run that is not there", lambda: al.Run.open("run"), "expected a run|found none|create one with Run.create"),
    ("classes of a run in one text", lambda: run_on(classes="a,b"), "expected a list of names|got the text 'a,b'|pass ['cat', 'dog']"),
    ("a misspelt option of a run", lambda: run_on(bugdet=5), "unknown argument bugdet|did you mean 'budget'|it takes"),
    ("an object for the strategy of a run", lambda: run_on(strategy=al.NPC()), "unknown strategy|known|npc"),
    ("answers in a list", lambda: telling(lambda run: ["a", "b", "a"]), "expected labels by path|got ['a', 'b', 'a']|dict(zip(run.waiting(), labels))"),
    ("an answer for another item", lambda: telling(lambda run: {"z": "a"}), "expected a path of the run|got 'z'|run.waiting()"),
    ("an unknown class in an answer", lambda: telling(lambda run: dict.fromkeys(run.waiting(), "c")), "unknown class 'c'|the classes are|a, b"),
    ("answers by path", lambda: telling(lambda run: dict.fromkeys(run.waiting(), "a")), True),
    # --- pipelines
    ("in a pipeline", lambda: len(make_pipeline(StandardScaler(), al.ActiveClassifier("auto")).fit(X, y)[-1].ask(0)) == 0, True),
    ("a class for the estimator", lambda: al.ActiveClassifier(al.FixMatch).fit(X, y), "expected a learner|or a scikit-learn classifier|FixMatch"),
    ("a pipeline that asks before it is fitted", lambda: al.ActiveClassifier().ask(2), "not fitted yet|Call 'fit'|before"),
    ("a sparse matrix to the classifier", lambda: al.ActiveClassifier().fit(csr_matrix(X), y), "Sparse data was passed|dense data is required|toarray"),
    # --- a table of texts
    ("no column of texts", lambda: al.data.text(table("t.csv", "a,b\n1,2\n")), "which column has the texts|a, b|column="),
    ("a misspelt column of texts", lambda: al.data.text(table("t.csv", "text,label\none,x\n"), column="body"), "expected a column 'body'|got text, label|choose one of these"),
    ("a table that is not there", lambda: al.data.load("reviews.csv"), "expected a path|or one of|got neither"),
    # --- a benchmark of one's own
    ("a misspelt strategy in a row", lambda: row(strategy="margn"), "unknown strategy 'margn'|did you mean 'margin'|known"),
    ("a class for the strategy of a row", lambda: row(strategy=al.NPC), "expected a strategy|got the class NPC|write NPC()"),
    ("arrays as data", lambda: row(data=(X, y)), "expected data that can be called|got a tuple|np.savez"),
    ("one number of labels", lambda: row(counts=5), "expected rising numbers of labels|got 5|counts=(20, 40)"),
    ("falling numbers of labels", lambda: row(counts=(20, 10)), "expected rising numbers of labels|got (20, 10)|counts=(20, 40)"),
    ("one seed", lambda: Benchmark(name="b", title="t", rows=(row(),), seeds=3), "expected distinct seeds|got 3|seeds=(0, 1)"),
    ("two rows of one method", lambda: Benchmark(name="b", title="t", rows=(row(), row()), seeds=(0,)), "expected rows with distinct|got|method="),
    ("data that are not there", lambda: Data(name="mine.npz"), "unknown data 'mine.npz'|known|or a path"),
]  # fmt: skip


@pytest.mark.entropy  # some ask for no seed
@pytest.mark.parametrize(("act", "comes"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_it_works_or_says_what_to_do(act, comes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if comes is True:
        assert act()
        return
    with pytest.raises((al.AsklessError, AssertionError, AttributeError, ValueError, TypeError)) as caught:
        act()
    said = str(caught.value)
    assert re.search(".*".join(map(re.escape, comes.split("|"))), said, flags=re.DOTALL), said
    assert len(said) < 1500


def test_there_are_as_many_as_were_collected():
    assert len(MISTAKES) >= 68
    assert len({name for name, *_ in MISTAKES}) == len(MISTAKES)
    assert all(comes is True or len(list(filter(None, comes.split("|")))) == 3 for _, _, comes in MISTAKES)
