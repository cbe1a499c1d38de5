"""Operations of ai.onnx.ml beside onnxruntime, whose results the exporters of scikit-learn mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import pykernels as pk
from pykernels.onnx import ModelError
from pykernels.onnx.checking import difference
from tests.models.test_nodes import Array, weights

pytestmark = pytest.mark.gpu
DOMAIN = "ai.onnx.ml"
ROWS, FEATURES = 40, 5


def model(
    op: str, *inputs: Array, outputs: int = 1, version: int = 3, **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """One node, and what its inputs are."""
    names = [f"x{i}" for i in range(len(inputs))]
    found = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, found, domain=DOMAIN, **attributes)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "one", values, [onnx.ValueInfoProto(name=n) for n in found])
    sets = [helper.make_operatorsetid("", 17), helper.make_operatorsetid(DOMAIN, version)]
    made = helper.make_model(graph, opset_imports=sets, ir_version=9)
    return made, dict(zip(names, inputs, strict=True))


def theirs(proto: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [v.name for v in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def check(dev: pk.Device, proto: onnx.ModelProto, inputs: dict[str, Array]) -> None:
    wanted = theirs(proto, inputs)
    found = pk.onnx.load(proto, device=dev)(inputs)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        away = difference(name, "output", found[name], array)
        assert away.fits, str(away)


X = weights(ROWS, FEATURES)
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.float32(np.nan), X)
WHOLE = np.random.default_rng(2).integers(-4, 5, (ROWS, FEATURES))
MEANS = list(range(1, FEATURES + 1))
CASES = {
    "ArrayFeatureExtractor": model("ArrayFeatureExtractor", X, np.array([[3, 0, 3]])),
    "ArrayFeatureExtractor_row": model("ArrayFeatureExtractor", WHOLE[0], np.array([1, 4])),
    "Binarizer": model("Binarizer", X, threshold=0.25),
    "FeatureVectorizer": model("FeatureVectorizer", X, X[:, :2], inputdimensions=[5, 2]),
    "Imputer": model("Imputer", HOLES, replaced_value_float=np.nan,
                     imputed_value_floats=[float(m) for m in MEANS]),
    "Imputer_one": model("Imputer", np.round(X), replaced_value_float=1.0,
                         imputed_value_floats=[9.5]),
    "Imputer_integers": model("Imputer", WHOLE, replaced_value_int64=3,
                              imputed_value_int64s=MEANS),
    "LabelEncoder": model("LabelEncoder", WHOLE, keys_int64s=[3, -2, 0, 1 << 40],
                          values_floats=[0.5, 1.5, -2.5, 7.0], default_float=9.25),
    "LabelEncoder_far": model("LabelEncoder", WHOLE, keys_int64s=[1 << 40, -(1 << 33)],
                              values_int64s=[1, 2], default_int64=-7),
    "LabelEncoder_integers": model("LabelEncoder", WHOLE, keys_int64s=[-4, 4, 1],
                                   values_int64s=[40, 30, 20], default_int64=-7),
    "LabelEncoder_floats": model("LabelEncoder", np.round(X), keys_floats=[2.0, 1.0, 0.0],
                                 values_floats=[5.0, 6.0, 7.0], default_float=-1.0),
    "LabelEncoder_numbers": model("LabelEncoder", np.round(X), keys_floats=[2.0, -1.0, 0.0],
                                  values_int64s=[2, 1, 3], default_int64=0),
    "LinearRegressor": model("LinearRegressor", X, coefficients=weights(5).tolist(),
                             intercepts=[0.5]),
    "LinearRegressor_many": model("LinearRegressor", X, coefficients=weights(15).tolist(),
                                  intercepts=[0.5, 0.0, -1.0], targets=3),
    "Normalizer_MAX_signed": model("Normalizer", X, norm="MAX"),
    "Normalizer_MAX": model("Normalizer", np.abs(X), norm="MAX"),
    "Normalizer_L1": model("Normalizer", np.vstack([X, X[:1] * 0]), norm="L1"),
    "Normalizer_L2": model("Normalizer", np.vstack([X, X[:1] * 0]), norm="L2"),
    "OneHotEncoder": model("OneHotEncoder", WHOLE, cats_int64s=[-2, 0, 4], zeros=1),
    "OneHotEncoder_floats": model("OneHotEncoder", np.round(X), cats_int64s=[-1, 1], zeros=1),
    "Scaler": model("Scaler", X, offset=[float(m) for m in MEANS], scale=weights(5).tolist()),
    "Scaler_one": model("Scaler", WHOLE, offset=[0.5], scale=[2.5]),
}  # fmt: skip
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnxruntime(dev: pk.Device, name: str) -> None:
    check(dev, *CASES[name])


def test_a_key_of_nan_matches_nan_and_the_last_of_equal_keys_counts(dev: pk.Device) -> None:
    """As the definition of version 4 says; onnxruntime 1.32 does neither. Before, the first one."""
    x = np.float32([0.0, -0.0, np.nan, 1.0, 2.0, -np.nan])
    proto, given = model("LabelEncoder", x, version=4, keys_floats=[1.0, np.nan, 0.0, 1.0],
                         values_floats=[5.0, 6.0, 7.0, 8.0], default_float=-1.0)  # fmt: skip
    found = pk.onnx.load(proto, device=dev)(given)["y0"]
    np.testing.assert_array_equal(found, [7.0, 7.0, 6.0, 8.0, -1.0, 6.0])
    check(dev, *model("LabelEncoder", WHOLE, keys_int64s=[1, 0, 1], values_floats=[5.0, 6.0, 7.0]))


def test_numbers_become_strings(dev: pk.Device) -> None:
    proto, given = model("LabelEncoder", WHOLE, keys_int64s=[3, -2, 0], default_string="none",
                         values_strings=["a", "b", "c"])  # fmt: skip
    run = pk.onnx.load(proto, device=dev)
    np.testing.assert_array_equal(run(given)["y0"], theirs(proto, given)["y0"])
    proto, given = model("LabelEncoder", WHOLE, keys_int64s=[1 << 40], default_string="none",
                         values_strings=["a"])  # fmt: skip
    assert (pk.onnx.load(proto, device=dev)(given)["y0"] == np.full(WHOLE.shape, "none")).all()


def test_names_of_classes_are_taken_and_moved(dev: pk.Device) -> None:
    """What exporters write for classes that are strings."""
    nodes = [
        helper.make_node("ArgMax", ["x"], ["i"], axis=1, keepdims=0),
        helper.make_node("ArrayFeatureExtractor", ["names", "i"], ["found"], domain=DOMAIN),
        helper.make_node("Reshape", ["found", "shape"], ["y"]),
    ]
    names = np.array(["a", "b", "c", "d", "e"], object)
    graph = helper.make_graph(
        nodes, "names", [helper.make_tensor_value_info("x", 1, X.shape)],
        [helper.make_tensor_value_info("y", 8, [ROWS])],
        [numpy_helper.from_array(names, "names"),
         numpy_helper.from_array(np.array([-1]), "shape")],
    )  # fmt: skip
    sets = [helper.make_operatorsetid("", 17), helper.make_operatorsetid(DOMAIN, 1)]
    proto = helper.make_model(graph, opset_imports=sets, ir_version=9)
    run = pk.onnx.load(proto, device=dev)
    np.testing.assert_array_equal(run(x=X)["y"], names[X.argmax(1)])
    np.testing.assert_array_equal(theirs(proto, {"x": X})["y"], names[X.argmax(1)])


@pytest.mark.parametrize("kind", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_classifiers(dev: pk.Device, classes: int, kind: str) -> None:
    check(dev, *model(
        "LinearClassifier", X, outputs=2, coefficients=weights(5 * classes).tolist(),
        intercepts=weights(classes, seed=1).tolist(), classlabels_ints=[7, 3, 5][:classes],
        post_transform=kind,
    ))  # fmt: skip


@pytest.mark.parametrize("kind", TRANSFORMS[:2])
def test_a_linear_classifier_with_one_score(dev: pk.Device, kind: str) -> None:
    check(dev, *model(
        "LinearClassifier", X, outputs=2, coefficients=weights(5).tolist(), intercepts=[0.25],
        classlabels_ints=[7, 3], post_transform=kind,
    ))  # fmt: skip


def test_classes_may_be_strings(dev: pk.Device) -> None:
    names = {"classlabels_strings": ["rose", "lily", "oak"]}
    linear = model(
        "LinearClassifier", X, outputs=2, coefficients=weights(15).tolist(),
        intercepts=weights(3, seed=1).tolist(), **names,
    )  # fmt: skip
    forest = trees("class", 5, (0, 1, 2))
    for proto, given in (linear, model("TreeEnsembleClassifier", X, outputs=2, **names, **forest)):
        wanted = theirs(proto, given)
        run = pk.onnx.load(proto, device=dev)
        for _ in range(2):  # the second one replays
            found = run(given)
            assert found["y0"].dtype == wanted["y0"].dtype == object
            assert len(set(wanted["y0"])) > 1
            np.testing.assert_array_equal(found["y0"], wanted["y0"])
            assert difference("y1", "output", found["y1"], wanted["y1"]).fits
        places = run(x0=dev.tensor(X))["y0"].numpy()
        assert [names["classlabels_strings"][i] for i in places] == list(wanted["y0"])
    proto.graph.node[0].output[0] = ""  # nobody wants the labels
    del proto.graph.output[0]
    found = pk.onnx.load(proto, device=dev)(given)
    assert list(found) == ["y1"] and difference("y1", "output", found["y1"], wanted["y1"]).fits
    proto.graph.node[0].output[0] = "y0"
    reader = helper.make_node("Identity", ["y0"], ["y2"])
    proto.graph.node.append(reader)
    proto.graph.output.append(onnx.ValueInfoProto(name="y2"))
    np.testing.assert_array_equal(pk.onnx.load(proto, device=dev)(given)["y2"], wanted["y0"])
    reader.CopyFrom(helper.make_node("Neg", ["y0"], ["y2"]))
    proto.graph.node[1].CopyFrom(reader)
    with pytest.raises(ModelError, match="no tensor") as caught:
        pk.onnx.load(proto, device=dev)
    assert caught.value.operator == "Neg"


KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0], "POLY": [0.5, 1.5, 3.0], "RBF": [0.3, 0.0, 0.0],
    "SIGMOID": [0.2, -0.5, 0.0],
}  # fmt: skip


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vectors(dev: pk.Device, kind: str, one_class: int) -> None:
    check(dev, *model(
        "SVMRegressor", X, kernel_type=kind, kernel_params=KERNELS[kind], n_supports=7,
        support_vectors=weights(35, seed=4).tolist(), coefficients=weights(7, seed=5).tolist(),
        rho=[0.25], one_class=one_class,
    ))  # fmt: skip


# -- trees ----------------------------------------------------------------------------------------

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def trees(
    kind: str, count: int, ids: tuple[int, ...], modes: tuple[str, ...] = MODES[:1],
    lift: float = 0.0, seed: int = 0, depth: int = 4,
) -> dict[str, Any]:  # fmt: skip
    """Random trees of uneven depth. Each leaf has a weight for each of the ids."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[Any]] = {f"nodes_{n}": [] for n in (
        "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
        "missing_value_tracks_true")}  # fmt: skip
    found |= {f"{kind}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, level: int) -> int:
        me = sum(t == tree for t in found["nodes_treeids"])
        row = len(found["nodes_treeids"])
        leaf = level == depth or (level > 0 and rng.random() < 0.25)
        for name, value in (
            ("treeids", tree), ("nodeids", me), ("featureids", int(rng.integers(FEATURES))),
            ("modes", "LEAF" if leaf else str(rng.choice(modes))),
            ("values", float(np.round(rng.standard_normal(), 1))), ("truenodeids", 0),
            ("falsenodeids", 0), ("missing_value_tracks_true", int(rng.integers(2))),
        ):  # fmt: skip
            found[f"nodes_{name}"].append(value)
        if leaf:
            for i in ids:
                for name, value in (("treeids", tree), ("nodeids", me), ("ids", i),
                                    ("weights", float(rng.standard_normal() + lift))):  # fmt: skip
                    found[f"{kind}_{name}"].append(value)
        else:
            found["nodes_truenodeids"][row] = grow(tree, level + 1)
            found["nodes_falsenodeids"][row] = grow(tree, level + 1)
        return me

    for tree in range(count):
        grow(tree, 0)
    return found


@pytest.mark.parametrize("modes", [MODES[:1], MODES[1:2], MODES[3:4], MODES])
@pytest.mark.parametrize("kind", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_sums_of_trees(dev: pk.Device, kind: str, modes: tuple[str, ...]) -> None:
    check(dev, *model(
        "TreeEnsembleRegressor", np.where(np.isnan(HOLES), HOLES, np.round(X, 1)), n_targets=1,
        aggregate_function=kind, **trees("target", 6, (0,), modes),
    ))  # fmt: skip


@pytest.mark.parametrize("count", [1, 7])
def test_trees_with_several_targets_and_base_values(dev: pk.Device, count: int) -> None:
    check(dev, *model(
        "TreeEnsembleRegressor", X, n_targets=3, base_values=[0.5, -1.0, 2.0],
        **trees("target", count, (0, 1, 2)),
    ))  # fmt: skip
    check(dev, *model("TreeEnsembleRegressor", X, n_targets=3, **trees("target", count, (0, 2))))


def test_trees_of_one_leaf(dev: pk.Device) -> None:
    proto, given = model(
        "TreeEnsembleRegressor", X, n_targets=1, **trees("target", 3, (0,), depth=0)
    )
    check(dev, proto, given)


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_votes_of_trees(dev: pk.Device, kind: str) -> None:
    check(dev, *model(
        "TreeEnsembleClassifier", X, outputs=2, classlabels_int64s=[4, 1, 9], post_transform=kind,
        **trees("class", 5, (0, 1, 2)),
    ))  # fmt: skip


@pytest.mark.parametrize("lift", [0.0, 9.0])
@pytest.mark.parametrize("kind", TRANSFORMS[:2])
@pytest.mark.parametrize("base", [None, [0.25]])
def test_trees_with_the_score_of_one_of_two_classes(
    dev: pk.Device, kind: str, lift: float, base: list[float] | None
) -> None:
    given = trees("class", 5, (0,), lift=lift)
    if lift:  # positive weights that add up to about 0.5
        given["class_weights"] = [w / 90 for w in given["class_weights"]]
    check(dev, *model(
        "TreeEnsembleClassifier", X, outputs=2, classlabels_int64s=[4, 1], post_transform=kind,
        **({} if base is None else {"base_values": base}), **given,
    ))  # fmt: skip


def test_a_tree_asks_for_members_of_sets(dev: pk.Device) -> None:
    def tensor(values: Any, kind: str = "f4") -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(values, kind))

    nan = np.nan
    check(dev, *model(
        "TreeEnsemble", WHOLE.astype("f4"), version=5, n_targets=2, aggregate_function=1,
        post_transform=0, tree_roots=[0, 2], nodes_modes=tensor([6, 0, 6], "u1"),
        nodes_featureids=[0, 1, 2], nodes_splits=tensor([0, 0.5, 0]),
        nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1], nodes_falsenodeids=[3, 1, 3],
        nodes_falseleafs=[1, 1, 1], leaf_targetids=[0, 1, 0, 1],
        leaf_weights=tensor([1.5, -2, 3, 4]),
        membership_values=tensor([1, 2, -3, nan, 0, nan]),
    ))  # fmt: skip


def test_a_map_of_scores_is_a_list_of_dicts(dev: pk.Device) -> None:
    for labels in ({"classlabels_int64s": [5, 3, 2]}, {"classlabels_strings": ["a", "b", "c"]}):
        nodes = [
            helper.make_node("Mul", ["x", "x"], ["z"]),
            helper.make_node("ZipMap", ["z"], ["y"], domain=DOMAIN, **labels),
        ]
        value = helper.make_tensor_value_info("x", 1, [4, 3])
        graph = helper.make_graph(nodes, "map", [value], [onnx.ValueInfoProto(name="y")])
        sets = [helper.make_operatorsetid("", 17), helper.make_operatorsetid(DOMAIN, 3)]
        proto = helper.make_model(graph, opset_imports=sets, ir_version=9)
        x = weights(4, 3)
        run = pk.onnx.load(proto, device=dev)
        assert run(x=x)["y"] == theirs(proto, {"x": x})["y"]
        with pytest.raises(ModelError, match="ZipMap"):
            broken = onnx.ModelProto()
            broken.CopyFrom(proto)
            del broken.graph.node[1].attribute[:]
            pk.onnx.load(broken, device=dev)
        tensor = run(x=dev.tensor(x))["y"]
        assert isinstance(tensor, pk.Tensor) and tensor.shape == (4, 3)


WRONG = {
    "a cycle": ({"nodes_truenodeids": 0}, "themselves"),
    "a missing node": ({"nodes_truenodeids": 99}, "not there"),
    "a feature": ({"nodes_featureids": 99}, "feature 99 of 5"),
    "a negative feature": ({"nodes_featureids": -1}, "feature -1"),
    "a mode": ({"nodes_modes": "BRANCH_X"}, "BRANCH_X"),
    "a target": ({"target_ids": 5}, "target 5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_tree_is_an_error(dev: pk.Device, name: str) -> None:
    changes, reason = WRONG[name]
    given = trees("target", 2, (0,))
    for key, value in changes.items():
        given[key][0] = value
    proto, _ = model("TreeEnsembleRegressor", X, n_targets=1, **given)
    with pytest.raises(ModelError, match=reason) as caught:
        pk.onnx.load(proto, device=dev)
    assert "TreeEnsembleRegressor" in caught.value.operator


def test_strings_and_unknown_operations_are_refused_by_name(dev: pk.Device) -> None:
    for op, given in (
        ("LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}),
        ("OneHotEncoder", {"cats_strings": ["a"]}),
        ("SVMClassifier", {}),
    ):  # fmt: skip
        proto, _ = model(op, X, **given)
        with pytest.raises(ModelError, match=r"strings|missing") as caught:
            pk.onnx.load(proto, device=dev)
        assert caught.value.operator == f"{DOMAIN}.{op}"


@pytest.mark.parametrize("op", ["Scaler", "Imputer", "LinearRegressor", "Normalizer"])
def test_wrong_options_are_errors(dev: pk.Device, op: str) -> None:
    given: dict[str, Any] = {
        "Scaler": {"offset": [1.0, 2.0], "scale": [1.0, 2.0]},
        "Imputer": {"imputed_value_floats": [1.0, 2.0]},
        "LinearRegressor": {"coefficients": [1.0, 2.0], "intercepts": [0.0]},
        "Normalizer": {"norm": "L9"},
    }[op]
    with pytest.raises(ModelError, match=r"features|L9"):
        pk.onnx.load(model(op, X, **given)[0], device=dev)
